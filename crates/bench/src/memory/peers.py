import sys
import time

import numpy

vectors = numpy.fromfile(sys.argv[1], dtype=numpy.float32).reshape(-1, int(sys.argv[2]))
queries = vectors[:: max(1, len(vectors) // 100)][:100] + numpy.float32(0.01)


def report(name, search):
    search(queries[0])
    times = []
    for query in queries:
        begun = time.perf_counter()
        search(query)
        times.append((time.perf_counter() - begun) * 1000)
    times.sort()
    print(f"{name:<28} {times[len(times) // 2]:>6.2f}/{times[len(times) * 95 // 100]:>6.2f} ms", flush=True)


report("numpy, float32", lambda query: numpy.argpartition(vectors @ query, -5)[-5:])

try:
    import faiss

    flat = faiss.IndexFlatIP(vectors.shape[1])
    flat.add(vectors)
    report("faiss, IndexFlatIP", lambda query: flat.search(query[None, :], 5))
except ImportError as error:
    print(f"faiss: NOT COMPARED: {error}")

try:
    import apsw
    import sqlite_vec

    # The sqlite3 of many a Python cannot load extensions.
    database = apsw.Connection(":memory:")
    database.enable_load_extension(True)
    database.load_extension(sqlite_vec.loadable_path())
    database.execute(f"CREATE VIRTUAL TABLE items USING vec0(vector float[{vectors.shape[1]}])")
    rows = ((number + 1, vector.tobytes()) for number, vector in enumerate(vectors))
    with database:
        database.executemany("INSERT INTO items (rowid, vector) VALUES (?, ?)", rows)
    find = "SELECT rowid FROM items WHERE vector MATCH ? ORDER BY distance LIMIT 5"
    report("sqlite-vec, in memory", lambda query: database.execute(find, [query.tobytes()]).fetchall())
except Exception as error:
    print(f"sqlite-vec: NOT COMPARED: {error}")
