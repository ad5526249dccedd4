"""llama.cpp, asked for one round of speed for each line that comes in. Answers with a line of JSON each."""

import json
import resource
import sys
import time

import xllamacpp

path, threads, prompt, answer = sys.argv[1], *map(int, sys.argv[2:])
begin = time.monotonic()
params = xllamacpp.CommonParams()
params.model.path = path
params.n_ctx = 2048
params.n_parallel = 1
params.warmup = True
params.cpuparams.n_threads = threads
params.cpuparams_batch.n_threads = threads
params.verbosity = 0
server = xllamacpp.Server(params)
load = time.monotonic() - begin

tokens = [100 + index * 7 % 1000 for index in range(prompt)]


def ask(predict):
    request = {
        "prompt": tokens,
        "n_predict": predict,
        "temperature": 0,
        "ignore_eos": True,
        "cache_prompt": False,
    }
    begin = time.monotonic()
    answer = server.handle_completions(request)
    return answer["timings"], time.monotonic() - begin


for _ in sys.stdin:
    timings, _ = ask(answer)
    _, first = ask(1)
    print(
        json.dumps(
            {
                "prefill": timings["prompt_per_second"],
                "decode": timings["predicted_per_second"],
                "first_ms": first * 1000,
                "load_ms": load * 1000,
                "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        ),
        flush=True,
    )
