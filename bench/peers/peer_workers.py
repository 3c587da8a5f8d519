"""The peers that language_peers.py measures, one process each, in their virtual environment.

    peer_workers.py transformers FOLDER f32|bf16 THREADS RUNNING CONTEXT
    peer_workers.py llama        FOLDER f32|bf16 THREADS RUNNING CONTEXT
answer lines "BATCH PROMPT NEW" as folder_rate does (folder_rate.cpp has the protocol).

    peer_workers.py trl FOLDER JSON
makes GRPO steps with TRL's trainer (GRPO_DEFAULTS has the keys of JSON) and prints their seconds.
"""

import json
import os
import sys
import time


def prompt_token(row, at, vocab_size):
    """Token `at` of the prompt of sequence `row`, as folder_rate.cpp has it."""
    return 1024 + (row * 7919 + at * 104729 + 13) % (vocab_size - 1024)


def answer_lines(run):
    for line in sys.stdin:
        batch, prompt, fresh = map(int, line.split())
        cpu = time.process_time()
        seconds, tokens = run(batch, prompt, fresh)
        cpu = time.process_time() - cpu
        print(json.dumps({"seconds": seconds, "cpu": cpu, "tokens": tokens}), flush=True)


def serve_transformers(folder, dtype, threads, _running, _context):
    import torch
    from transformers import AutoModelForCausalLM

    begin = time.perf_counter()
    torch.set_num_threads(threads)
    kind = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=kind).eval()
    print(json.dumps({"ready": True, "load_s": time.perf_counter() - begin}), flush=True)

    @torch.no_grad()
    def run(batch, prompt, fresh):
        vocab = model.config.vocab_size
        ids = torch.tensor(
            [[prompt_token(row, at, vocab) for at in range(prompt)] for row in range(batch)]
        )
        begin = time.perf_counter()
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=fresh,
            min_new_tokens=fresh,
            do_sample=False,
            pad_token_id=0,
        )
        seconds = time.perf_counter() - begin
        assert out.shape[1] == prompt + fresh
        return seconds, out[0, prompt:].tolist()

    answer_lines(run)


class Llama:
    """llama.cpp's own decoding call, a batch of sequences at a time."""

    def __init__(self, folder, threads, context):
        import llama_cpp

        self.lib, self.threads, self.context_length = llama_cpp, threads, context
        llama_cpp.llama_backend_init()
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = 0
        path = os.path.join(folder, "model.gguf").encode()
        self.model = llama_cpp.llama_model_load_from_file(path, params)
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            self.vocab_size = json.load(file)["vocab_size"]
        self.rows, self.context, self.batch = 0, None, None

    def open(self, rows, prompt):
        """A context for so many sequences; llama.cpp sizes its graph and cache by them."""
        if rows == self.rows:
            return
        if self.context:
            self.lib.llama_batch_free(self.batch)
            self.lib.llama_free(self.context)
        params = self.lib.llama_context_default_params()
        params.n_ctx = rows * self.context_length
        params.n_seq_max = rows
        params.n_batch = max(512, rows * prompt)
        params.n_ubatch = 512
        params.n_threads = params.n_threads_batch = self.threads
        self.context = self.lib.llama_init_from_model(self.model, params)
        self.batch = self.lib.llama_batch_init(params.n_batch, 0, 1)
        self.rows = rows

    def decode(self, entries):
        """entries: (token, position, sequence, are logits wanted). Returns a token for each that
        wants logits."""
        import numpy

        for i, (token, position, sequence, is_wanted) in enumerate(entries):
            self.batch.token[i] = token
            self.batch.pos[i] = position
            self.batch.n_seq_id[i] = 1
            self.batch.seq_id[i][0] = sequence
            self.batch.logits[i] = is_wanted
        self.batch.n_tokens = len(entries)
        code = self.lib.llama_decode(self.context, self.batch)
        if code != 0:
            sys.exit(f"llama_decode: {code}")
        picked = []
        for i, entry in enumerate(entries):
            if not entry[3]:
                continue
            logits = self.lib.llama_get_logits_ith(self.context, i)
            picked.append(int(numpy.ctypeslib.as_array(logits, (self.vocab_size,)).argmax()))
        return picked

    def run(self, rows, prompt, fresh):
        self.open(rows, prompt)
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        entries = [
            (prompt_token(row, at, self.vocab_size), at, row, at + 1 == prompt)
            for row in range(rows)
            for at in range(prompt)
        ]
        begin = time.perf_counter()
        tokens = self.decode(entries)
        first = [tokens[0]]
        for i in range(1, fresh):
            place = prompt + i - 1
            tokens = self.decode([(token, place, row, True) for row, token in enumerate(tokens)])
            first.append(tokens[0])
        return time.perf_counter() - begin, first


def serve_llama(folder, _dtype, threads, _running, context):
    begin = time.perf_counter()
    llama = Llama(folder, threads, context)
    print(json.dumps({"ready": True, "load_s": time.perf_counter() - begin}), flush=True)
    answer_lines(llama.run)


GRPO_DEFAULTS = {
    "dtype": "f32",
    "threads": 1,
    "prompts": [],  # texts
    "completion": 64,  # [tokens] of every answer
    "group": 8,  # answers to a prompt
    "micro_batch": 8,  # answers in one forward of the update
    "optimizer_batch": 64,  # answers of an optimizer step
    "samples": 64,  # answers that are generated at once
    "steps": 3,  # of `samples` each
    "learning_rate": 1e-5,
    "work": "",  # folder
}


def grpo_config(job):
    from trl import GRPOConfig

    accumulate = job["optimizer_batch"] // job["micro_batch"]
    return GRPOConfig(
        output_dir=job["work"],
        use_cpu=True,
        bf16=False,  # no autocast: the dtype is the model's
        fp16=False,
        per_device_train_batch_size=job["micro_batch"],
        gradient_accumulation_steps=accumulate,
        steps_per_generation=job["samples"] // job["micro_batch"],
        num_generations=job["group"],
        max_completion_length=job["completion"],
        generation_kwargs={"min_new_tokens": job["completion"]},  # nothing ends an answer
        temperature=1.0,
        top_p=1.0,
        top_k=0,
        beta=0.0,
        learning_rate=job["learning_rate"],
        lr_scheduler_type="constant",
        max_steps=job["steps"] * (job["samples"] // job["optimizer_batch"]),
        gradient_checkpointing=False,
        model_init_kwargs={"dtype": {"f32": "float32", "bf16": "bfloat16"}[job["dtype"]]},
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def trl_steps(folder, text):
    """A step is a batch of samples and the optimizer steps on it."""
    job = {**GRPO_DEFAULTS, **json.loads(text)}
    import torch
    from datasets import Dataset
    from transformers import PreTrainedTokenizerFast, TrainerCallback
    from trl import GRPOTrainer

    torch.set_num_threads(job["threads"])
    marks, lengths = [], []

    class Marks(TrainerCallback):
        def on_step_begin(self, *_args, **_kwargs):
            marks.append((time.perf_counter(), time.process_time()))

        on_step_end = on_step_begin

    def score(completion_ids, **_columns):
        lengths.extend(len(ids) for ids in completion_ids)
        return [float(sum(ids) % 7) for ids in completion_ids]

    trainer = GRPOTrainer(
        model=folder,
        reward_funcs=score,
        args=grpo_config(job),
        train_dataset=Dataset.from_list([{"prompt": text} for text in job["prompts"]]),
        processing_class=PreTrainedTokenizerFast.from_pretrained(folder, padding_side="left"),
        callbacks=[Marks()],
    )
    trainer.train()
    report = {"response_tokens": sum(lengths) / len(lengths)}
    for clock, name in enumerate(("seconds", "cpu")):
        parts = [end[clock] - begin[clock] for begin, end in zip(marks[::2], marks[1::2])]
        count = job["samples"] // job["optimizer_batch"]
        report[name] = [sum(parts[i : i + count]) for i in range(0, len(parts), count)]
    print(json.dumps(report))


def main():
    if sys.argv[1] == "trl":
        return trl_steps(sys.argv[2], sys.argv[3])
    serve = {"transformers": serve_transformers, "llama": serve_llama}[sys.argv[1]]
    folder, dtype = sys.argv[2:4]
    return serve(folder, dtype, *map(int, sys.argv[4:7]))


if __name__ == "__main__":
    sys.exit(main())
