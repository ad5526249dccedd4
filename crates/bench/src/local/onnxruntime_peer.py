"""onnxruntime, asked for one round of speed for each line that comes in. Answers with a line of JSON each.

The network is written down here from the same weights, since there is no file of it in that format to be had.
"""

import json
import pathlib
import resource
import sys
import time

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

folder, threads, texts = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
TOKENS, OPSET = 32, 20
WIDTH, HEADS, LAYERS, EPSILON = 384, 12, 6, 1e-12

begin = time.monotonic()
data = (folder / "model.safetensors").read_bytes()
length = int.from_bytes(data[:8], "little")
header = json.loads(data[8 : 8 + length])
nodes, constants = [], []


def weight(name):
    entry = header[name]
    start, end = (8 + length + offset for offset in entry["data_offsets"])
    return numpy.frombuffer(data[start:end], dtype=numpy.float32).reshape(entry["shape"])


def constant(values):
    name = f"c{len(constants)}"
    constants.append(numpy_helper.from_array(numpy.ascontiguousarray(values), name))
    return name


def node(kind, *inputs, **attributes):
    name = f"n{len(nodes)}"
    nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
    return name


def linear(value, part):
    product = node("MatMul", value, constant(weight(f"{part}.weight").T))
    return node("Add", product, constant(weight(f"{part}.bias")))


def norm(value, part):
    scale, bias = constant(weight(f"{part}.weight")), constant(weight(f"{part}.bias"))
    return node("LayerNormalization", value, scale, bias, axis=-1, epsilon=EPSILON)


def heads(value, order):
    split = node("Reshape", value, constant(numpy.array([0, 0, HEADS, WIDTH // HEADS])))
    return node("Transpose", split, perm=order)


words = node("Gather", constant(weight("embeddings.word_embeddings.weight")), "ids")
positions = weight("embeddings.position_embeddings.weight") + weight("embeddings.token_type_embeddings.weight")[0]
positions = node("Gather", constant(positions), "positions")
hidden = norm(node("Add", words, positions), "embeddings.LayerNorm")
for layer in range(LAYERS):
    part = f"encoder.layer.{layer}."
    query = heads(linear(hidden, part + "attention.self.query"), [0, 2, 1, 3])
    key = heads(linear(hidden, part + "attention.self.key"), [0, 2, 3, 1])
    value = heads(linear(hidden, part + "attention.self.value"), [0, 2, 1, 3])
    scores = node("MatMul", query, key)
    scores = node("Mul", scores, constant(numpy.float32((WIDTH // HEADS) ** -0.5)))
    taken = node("MatMul", node("Softmax", scores, axis=-1), value)
    taken = node("Transpose", taken, perm=[0, 2, 1, 3])
    taken = node("Reshape", taken, constant(numpy.array([0, 0, WIDTH])))
    hidden = node("Add", hidden, linear(taken, part + "attention.output.dense"))
    hidden = norm(hidden, part + "attention.output.LayerNorm")
    inner = node("Gelu", linear(hidden, part + "intermediate.dense"))
    hidden = node("Add", hidden, linear(inner, part + "output.dense"))
    hidden = norm(hidden, part + "output.LayerNorm")
mean = node("ReduceMean", hidden, constant(numpy.array([1])), keepdims=0)
size = node("ReduceL2", mean, constant(numpy.array([1])), keepdims=1)
nodes.append(helper.make_node("Div", [mean, size], ["vector"]))
inputs = [
    helper.make_tensor_value_info("ids", TensorProto.INT64, ["texts", "tokens"]),
    helper.make_tensor_value_info("positions", TensorProto.INT64, ["tokens"]),
]
outputs = [helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["texts", WIDTH])]
graph = helper.make_graph(nodes, "bert", inputs, outputs, constants)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
load = time.monotonic() - begin


def embed(ids):
    ids = numpy.array(ids, dtype=numpy.int64)
    return session.run(None, {"ids": ids, "positions": numpy.arange(ids.shape[1])})[0]


# "This is an example sentence", to see that it is the same network.
example = embed([[101, 2023, 2003, 2019, 2742, 6251, 102]])[0]
assert numpy.allclose(example[:4], [0.067657, 0.063496, 0.048713, 0.079305], atol=1e-5), example[:4]

one = [[1000 + index for index in range(TOKENS)]]
many = one * 16
for _ in sys.stdin:
    times = []
    for _ in range(20):
        begin = time.monotonic()
        embed(one)
        times.append(time.monotonic() - begin)
    begin = time.monotonic()
    for _ in range(texts // len(many)):
        embed(many)
    rate = texts / (time.monotonic() - begin)
    print(
        json.dumps(
            {
                "query_ms": sorted(times)[len(times) // 2] * 1000,
                "texts": rate,
                "load_ms": load * 1000,
                "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        ),
        flush=True,
    )
