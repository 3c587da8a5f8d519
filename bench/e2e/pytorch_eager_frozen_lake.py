#!/usr/bin/python3
"""FrozenLake by GRPO in plain PyTorch eager: the baseline of "at least 2x the trajectories/s of
PyTorch eager".

    OMP_NUM_THREADS=1 /usr/bin/python3 bench/e2e/pytorch_eager_frozen_lake.py --threads 1

The same work as configs/frozen_lake.yaml: the same 100k-parameter Qwen2-type model, ChatML
prompts of the same length, answers of three tokens (--fmt tag: one token
"<answer>Right</answer>"), maps by the same generator (training never plays a held-out map), 64
groups of 8, the same optimizer, loss and counts; the config's numbers are the defaults, each is
an option. Written as one would write it for speed in eager mode: batched decode with a
preallocated KV cache whose finished rows are compacted away, vectorised environments, log-softmax
at answer positions only, micro-batches sorted by length, trajectories without advantage left out
of the update (--train-all 1 keeps them). It warms up, trains, and prints one JSON line; curves go
to stderr. Debian's python3-torch and python3-numpy with libopenblas0-pthread are all it needs.
"""

import argparse
import collections
import json
import math
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

ACTIONS = ("Left", "Down", "Right", "Up")
TOKENS = [
    "<pad>",
    "<|im_start|>",
    "<|im_end|>",
    "<|im_start|>user\n",
    "<|im_end|>\n<|im_start|>user\n",
    "\n<|im_start|>user\n",
    "<|im_end|>\n<|im_start|>assistant\n",
    "<answer>",
    "</answer>",
    *ACTIONS,
    "P",
    "_",
    "O",
    "G",
    "\n",
    *(f"<answer>{a}</answer>" for a in ACTIONS),
    "moved",
    "blocked",
    "invalid",
    *"0123456789",
]
ID = {text: i for i, text in enumerate(TOKENS)}
PAD, END, FIRST_USER, NEXT_USER, ASSISTANT = (
    ID["<pad>"],
    ID["<|im_end|>"],
    ID["<|im_start|>user\n"],
    ID["<|im_end|>\n<|im_start|>user\n"],
    ID["<|im_end|>\n<|im_start|>assistant\n"],
)
ANSWER_IDS = {
    "tok": np.array([[ID[a]] for a in ACTIONS]),
    "tag": np.array([[ID[f"<answer>{a}</answer>"]] for a in ACTIONS]),
    "ans": np.array([[ID["<answer>"], ID[a], ID["</answer>"]] for a in ACTIONS]),
}
EVENTS = np.array([ID["moved"], ID["blocked"], ID["invalid"]])
OBS = 19  # tokens of an observation: 16 cells, 3 newlines

# ---- maps and environments, vectorised over N episodes
# ---------------------------------------------------

def neighbours(size=4):
    table = np.zeros((size * size, 4), np.int64)
    for cell in range(size * size):
        r, c = divmod(cell, size)
        table[cell] = [
            cell - (c > 0),
            cell + size * (r < size - 1),
            cell + (c < size - 1),
            cell - size * (r > 0),
        ]
    return table

NEXT = neighbours()

def distances(holes, goal):
    """[N, 16] moves to the goal around the holes; 99 where there is no way."""
    n = np.arange(len(goal))
    d = np.full(holes.shape, 99)
    d[n, goal] = 0
    for _ in range(16):
        d = np.minimum(d, np.where(holes, 99, d[:, NEXT].min(2) + 1))
        d[n, goal] = 0
    return d

def draw_map(seed, p=0.8):
    """(holes [16], start, goal) as tools/golden/make_frozen_lake_maps.py draws them."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(int(seed))))
    while True:
        holes = rng.choice(2, 16, p=[p, 1 - p]) == 1
        while True:
            r = [int(rng.integers(0, 4)) for _ in range(4)]
            start, goal = r[0] * 4 + r[1], r[2] * 4 + r[3]
            if start != goal:
                break
        holes[[start, goal]] = False
        if distances(holes[None], np.array([goal]))[0, start] < 99:
            return holes, start, goal

def map_key(world):
    holes, start, goal = world
    return holes.tobytes() + bytes([start, goal])

class Maps:
    """Training maps from [0, 1e6), never one of the held-out maps 1e6 .. 1e6+255."""

    def __init__(self, seed, p):
        self.rng, self.p = np.random.default_rng([seed, 7]), p
        self.held_out = [draw_map(s) for s in range(1_000_000, 1_000_256)]
        self.keys = {map_key(m) for m in self.held_out}

    def train(self, n):
        worlds = []
        while len(worlds) < n:
            world = draw_map(self.rng.integers(0, 1_000_000), self.p)
            if map_key(world) not in self.keys:
                worlds.append(world)
        return worlds

class Lakes:
    """N episodes at once; dead ones keep still."""

    def __init__(self, worlds, max_turns=8, penalty=-0.1):
        self.holes = np.stack([w[0] for w in worlds])
        self.pos = np.array([w[1] for w in worlds])
        self.goal = np.array([w[2] for w in worlds])
        self.n = np.arange(len(worlds))
        self.turn, self.max_turns, self.penalty = 0, max_turns, penalty
        self.done = np.zeros(len(worlds), bool)
        self.success = np.zeros(len(worlds), bool)
        self.ret = np.zeros(len(worlds))
        self.event = np.zeros(len(worlds), np.int64)
        self.cells = np.where(self.holes, ID["O"], ID["_"])
        self.cells[self.n, self.goal] = ID["G"]
        self.dist = None

    def observe(self, rows):
        cells = self.cells[rows].copy()
        cells[np.arange(len(rows)), self.pos[rows]] = ID["P"]
        out = np.full((len(rows), OBS), ID["\n"])
        out[:, np.arange(16) + np.arange(16) // 4] = cells
        return out

    def step(self, rows, actions):
        """actions: 0..3, or -1 for an invalid answer."""
        self.turn += 1
        valid = actions >= 0
        target = np.where(valid, NEXT[self.pos[rows], np.maximum(actions, 0)], self.pos[rows])
        self.event[rows] = np.where(valid, np.where(target != self.pos[rows], 0, 1), 2)
        self.pos[rows] = target
        won = valid & (target == self.goal[rows])
        self.success[rows] |= won
        self.ret[rows] += np.where(valid, won.astype(float), self.penalty)
        self.done[rows] = won | self.holes[rows, target] | (self.turn >= self.max_turns)

    def expert(self, rows, rng, ties):
        if self.dist is None:
            self.dist = distances(self.holes, self.goal)
        after = (
            self.dist[rows[:, None], NEXT[self.pos[rows]]]
            + (NEXT[self.pos[rows]] == self.pos[rows, None]) * 50
        )
        noise = rng.random(after.shape) if ties == "random" else np.arange(4) * 0.1
        return (after + 0.9 * noise).argmin(1)

# ---- model -----------------------------------------------------------------------------------
# ------------

class Model:
    def __init__(self, a):
        self.a, d, L = a, a.d, a.layers
        self.hd, self.h, self.kv = a.head_dim, a.heads, a.kv_heads
        g = torch.Generator().manual_seed(a.seed)

        def normal(*shape, scale=1.0):
            return (torch.randn(*shape, generator=g) * a.init * scale).requires_grad_()

        qkv = (self.h + 2 * self.kv) * self.hd
        out_scale = 1 / math.sqrt(2 * L)
        self.emb = normal(len(TOKENS), d)
        self.norm = torch.ones(d, requires_grad=True)
        self.layers = [
            dict(
                n1=torch.ones(d, requires_grad=True),
                qkv=normal(qkv, d),
                b=torch.zeros(qkv, requires_grad=True),
                o=normal(d, self.h * self.hd, scale=out_scale),
                n2=torch.ones(d, requires_grad=True),
                gu=normal(2 * a.ffn, d),
                dn=normal(d, a.ffn, scale=out_scale),
            )
            for _ in range(L)
        ]
        self.params = [self.emb, self.norm] + [p for layer in self.layers for p in layer.values()]
        freq = a.theta ** (-torch.arange(0, self.hd, 2).float() / self.hd)
        angle = torch.arange(1024).float()[:, None] * torch.cat([freq, freq])[None]
        self.cos, self.sin = angle.cos(), angle.sin()

    @staticmethod
    def rms(x, w):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w

    def rope(self, x, pos):
        cos, sin = self.cos[pos][:, None], self.sin[pos][:, None]  # pos [B or 1, n]
        x1, x2 = x.chunk(2, -1)
        return x * cos + torch.cat([-x2, x1], -1) * sin

    def forward(self, ids, pos, bias, cache=None, at=0):
        """ids [B, n], pos [1, n], bias [1, heads / kv heads * n, keys] (0 = attend, -inf = not).
        With a cache its
        columns at .. at + n are written."""
        b, n = ids.shape
        x = self.emb[ids]
        for i, w in enumerate(self.layers):
            q, k, v = (
                F.linear(self.rms(x, w["n1"]), w["qkv"], w["b"])
                .view(b, n, -1, self.hd)
                .transpose(1, 2)
                .split([self.h, self.kv, self.kv], 1)
            )
            q, k = self.rope(q, pos), self.rope(k, pos)
            if cache is not None:
                cache[i][0][:, :, at : at + n], cache[i][1][:, :, at : at + n] = k, v
                k, v = cache[i][0][:, :, : at + n], cache[i][1][:, :, : at + n]
            rows, rep = b * self.kv, self.h // self.kv
            score = torch.baddbmm(
                bias,
                q.reshape(rows, rep * n, self.hd),
                k.reshape(rows, -1, self.hd).transpose(1, 2),
                alpha=1 / math.sqrt(self.hd),
            )
            att = score.softmax(-1) @ v.reshape(rows, -1, self.hd)
            x = x + F.linear(
                att.view(b, self.h, n, self.hd).transpose(1, 2).reshape(b, n, -1), w["o"]
            )
            gate, up = F.linear(self.rms(x, w["n2"]), w["gu"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, w["dn"])
        return self.rms(x, self.norm)

    def causal(self, first, n):
        """The bias of queries first .. first + n - 1 over keys 0 .. first + n - 1."""
        keys = torch.arange(first + n)
        mask = torch.zeros(n, first + n).masked_fill(keys[None] > keys[first:, None], -math.inf)
        return mask.repeat(self.h // self.kv, 1)[None]

    def logits(self, x):
        return F.linear(x, self.emb)

# ---- rollout
# ---------------------------------------------------------------------------------------------

Batch = collections.namedtuple("Batch", "ids answer logp lengths group ret success turns invalid")

def rollout(model, worlds, a, greedy=False):
    """Plays all worlds together; lists per trajectory in world order (answer: 1 = sampled)."""
    lakes = Lakes(worlds, a.turns, a.penalty)
    total, limit = len(worlds), a.seq_len
    words = ANSWER_IDS[a.fmt]
    width = words.shape[1]
    rows = np.arange(total)
    cache = [
        [torch.zeros(total, model.kv, limit, model.hd) for _ in range(2)] for _ in model.layers
    ]
    ids = torch.zeros(total, limit, dtype=torch.long)
    logps, sampled = torch.zeros(total, limit), torch.zeros(total, limit, dtype=torch.bool)
    col, invalid, prefill, decoded = 0, 0, 0, 0
    out = [None] * total
    turns = np.zeros(total, int)
    last = torch.zeros(
        total, 0, dtype=torch.long
    )  # the last answer token: fed together with the next prompt
    while len(rows):
        head = np.full((len(rows), 1), FIRST_USER if lakes.turn == 0 else NEXT_USER)
        if a.event and lakes.turn > 0:
            head = np.concatenate([head, EVENTS[lakes.event[rows]][:, None]], 1)
        prompt = torch.from_numpy(
            np.concatenate([head, lakes.observe(rows), np.full((len(rows), 1), ASSISTANT)], 1)
        )
        ids[:, col + last.shape[1] : col + last.shape[1] + prompt.shape[1]] = prompt
        new = torch.cat([last, prompt], 1)
        answers = np.zeros((len(rows), width), int)
        for k in range(width):
            n = new.shape[1]
            pos = torch.arange(col, col + n)
            hidden = model.forward(new, pos[None], model.causal(col, n), cache, col)[:, -1]
            prefill, decoded = prefill + new.numel() * (k == 0), decoded + len(rows)
            logp = model.logits(hidden).log_softmax(-1)
            pick = logp.argmax(-1) if greedy else torch.multinomial(logp.exp(), 1)[:, 0]
            col += n
            ids[:, col], sampled[:, col] = pick, True
            logps[:, col] = logp.gather(1, pick[:, None])[:, 0]
            answers[:, k] = pick.numpy()
            new = pick[:, None]
        last = new
        match = (answers[:, None] == words[None]).all(2)
        action = np.where(match.any(1), match.argmax(1), -1)
        invalid += int((action < 0).sum())
        lakes.step(rows, action)
        turns[rows] += 1
        over = lakes.done[rows]
        for i in np.flatnonzero(over):
            out[rows[i]] = (
                ids[i, : col + 1].clone(),
                sampled[i, : col + 1].clone(),
                logps[i, : col + 1].clone(),
            )
        if over.any():
            keep = torch.from_numpy(np.flatnonzero(~over))
            rows = rows[~over]
            ids, logps, sampled, last = ids[keep], logps[keep], sampled[keep], last[keep]
            cache = [[x.index_select(0, keep) for x in layer] for layer in cache]
    stats = dict(prefill=prefill, decoded=decoded, invalid=invalid / total)
    return Batch(
        [o[0] for o in out],
        [o[1] for o in out],
        [o[2] for o in out],
        [len(o[0]) for o in out],
        None,
        lakes.ret,
        lakes.success,
        turns,
        stats,
    )
def scripted(worlds, a, rng, expert_fraction):
    """Transcripts of the mixed player: (ids, answer) per trajectory."""
    lakes = Lakes(worlds, a.turns, a.penalty)
    parts = [[] for _ in worlds]
    words = ANSWER_IDS[a.fmt]
    rows = np.arange(len(worlds))
    while len(rows):
        obs = lakes.observe(rows)
        head = [FIRST_USER] if lakes.turn == 0 else [NEXT_USER]
        events = EVENTS[lakes.event[rows]]
        expert = lakes.expert(rows, rng, a.ties)
        action = np.where(
            rng.random(len(rows)) < expert_fraction, expert, rng.integers(0, 4, len(rows))
        )
        for i, row in enumerate(rows):
            event = [events[i]] if a.event and lakes.turn > 0 else []
            parts[row].append((np.array([*head, *event, *obs[i], ASSISTANT]), words[action[i]]))
        lakes.step(rows, action)
        rows = rows[~lakes.done[rows]]
    ids = [torch.from_numpy(np.concatenate([np.concatenate(turn) for turn in p])) for p in parts]
    answer = [
        torch.from_numpy(
            np.concatenate([np.r_[np.zeros(len(u), bool), np.ones(len(w), bool)] for u, w in p])
        )
        for p in parts
    ]
    return ids, answer

# ---- update
# ----------------------------------------------------------------------------------------------

def pad(rows, value=0):
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=value)

def answer_logp(model, ids, answer):
    """Log-probs and entropies [M] of the answer tokens of a padded micro-batch."""
    n = ids.shape[1]
    hidden = model.forward(ids, torch.arange(n)[None], model.causal(0, n))
    b, t = answer.nonzero(as_tuple=True)
    logp = model.logits(hidden[b, t - 1]).log_softmax(-1)
    entropy = -(logp.exp() * logp).sum(-1)
    return logp.gather(1, ids[b, t][:, None])[:, 0], entropy

def micro_batches(order, a):
    return [order[i : i + a.micro] for i in range(0, len(order), a.micro)]

def optimizer_step(model, opt, lr):
    norm = torch.nn.utils.clip_grad_norm_(model.params, 1.0)
    for group in opt.param_groups:
        group["lr"] = lr
    opt.step()
    opt.zero_grad(set_to_none=True)
    return float(norm)

def sft_step(model, opt, lr, data, a):
    ids, answer = data
    tokens = sum(int(x.sum()) for x in answer)
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    for rows in micro_batches(order, a):
        logp, _ = answer_logp(model, pad([ids[i] for i in rows]), pad([answer[i] for i in rows]))
        (-logp.sum() / tokens).backward()
    return optimizer_step(model, opt, lr)

def advantages(ret, a):
    groups = ret.reshape(-1, a.group)
    std = groups.std(1, ddof=1, keepdims=True)
    adv = np.where(std > 1e-6, (groups - groups.mean(1, keepdims=True)) / (std + 1e-6), 0)
    return adv.reshape(-1), float((std > 1e-6).mean())

def grpo_update(model, opt, lr, batch, a, rng, stats):
    adv, stats["mixed"] = advantages(batch.ret, a)
    orders = [rng.permutation(len(adv)) for _ in range(a.epochs)]
    for mini in [m for order in orders for m in np.array_split(order, a.minis)]:
        tokens = sum(int(batch.answer[i].sum()) for i in mini)
        live = [i for i in mini if adv[i] != 0 or a.train_all]
        live.sort(key=lambda i: batch.lengths[i])
        for rows in micro_batches(live, a):
            answer = pad([batch.answer[i] for i in rows])
            logp, entropy = answer_logp(model, pad([batch.ids[i] for i in rows]), answer)
            old = pad([batch.logp[i] for i in rows])[answer]
            adv_t = torch.tensor(adv[rows], dtype=torch.float32)[answer.nonzero(as_tuple=True)[0]]
            ratio = (logp - old).exp()
            pg = -torch.min(ratio * adv_t, ratio.clamp(1 - a.clip_low, 1 + a.clip_high) * adv_t)
            ((pg.sum() - a.ent * entropy.sum()) / tokens).backward()
            stats["entropy"] += float(entropy.detach().sum()) / tokens / a.minis / a.epochs
            stats["kl"] += float((old - logp.detach()).sum()) / tokens / a.minis / a.epochs
            stats["trained"] += int(sum(batch.lengths[i] for i in rows))
        stats["gnorm"] = optimizer_step(model, opt, lr)

# ---- the run
# ---------------------------------------------------------------------------------------------

def evaluate(model, maps, a):
    with torch.no_grad():
        return [
            round(float(rollout(model, maps.held_out, a, greedy).success.mean()), 3)
            for greedy in (False, True)
        ]

def decayed(base, step, total, warm, tail):
    """Linear warm-up, constant, linear decay to 0 over the last `tail` of the steps."""
    left = (total - step) / max(1, tail * total)
    return base * min(1, (step + 1) / max(1, warm), left)

def log(**row):
    print(json.dumps(row), file=sys.stderr, flush=True)

def warm_start(model, maps, a, rng):
    opt = torch.optim.AdamW(
        model.params, lr=a.sft_lr, betas=(0.9, 0.95), weight_decay=0.0, foreach=True
    )
    begin, tokens = time.time(), 0
    for step in range(a.sft_steps):
        # The teacher is an expert for the first half and grows careless over the next quarter.
        careless = min(1, max(0, step / a.sft_steps - 0.5) / 0.25)
        expert = a.expert + (a.expert_end - a.expert) * careless if a.expert_end >= 0 else a.expert
        data = scripted(maps.train(a.sft_batch), a, rng, expert)
        tokens += sum(len(x) for x in data[0])
        sft_step(model, opt, decayed(a.sft_lr, step, a.sft_steps, 20, a.sft_tail), data, a)
        if a.sft_eval and (step + 1) % a.sft_eval == 0:
            log(sft=step + 1, val=evaluate(model, maps, a), seconds=round(time.time() - begin, 1))
    return dict(seconds=time.time() - begin, tokens=tokens)

def run(a):
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    rng = np.random.default_rng([a.seed, 1])
    maps, model = Maps(a.seed, a.p_train), Model(a)
    warm = warm_start(model, maps, a, rng)
    curve = [(0, *evaluate(model, maps, a))]
    log(
        step=0,
        val=curve[-1][1:],
        sft_tokens=warm["tokens"],
        sft_seconds=round(warm["seconds"], 1),
        params=sum(p.numel() for p in model.params),
    )
    opt = torch.optim.AdamW(
        model.params, lr=a.lr, betas=(0.9, 0.95), weight_decay=0.0, foreach=True
    )
    clock = collections.Counter()
    for step in range(a.steps):
        stats = collections.Counter()
        t0 = time.time()
        worlds = [w for w in maps.train(a.groups) for _ in range(a.group)]
        with torch.no_grad():
            batch = rollout(model, worlds, a)
        t1 = time.time()
        grpo_update(
            model, opt, decayed(a.lr, step, a.steps, a.lr_warm, a.lr_tail), batch, a, rng, stats
        )
        t2 = time.time()
        if step >= a.skip:  # the first steps touch fresh memory
            clock.update(
                gen=t1 - t0,
                train=t2 - t1,
                trajectories=len(worlds),
                prefill=batch.invalid["prefill"],
                decoded=batch.invalid["decoded"],
                trained=stats["trained"],
            )
        if (step + 1) % a.eval == 0 or step + 1 == a.steps:
            curve.append((step + 1, *evaluate(model, maps, a)))
            log(
                step=step + 1,
                val=curve[-1][1:],
                reward=round(float(batch.ret.mean()), 3),
                mixed=round(stats["mixed"], 2),
                entropy=round(stats["entropy"], 3),
                kl=round(stats["kl"], 4),
                turns=round(float(batch.turns.mean()), 2),
                invalid=round(batch.invalid["invalid"], 3),
                gnorm=round(stats["gnorm"], 2),
                gen_s=round(t1 - t0, 2),
                train_s=round(t2 - t1, 2),
            )
    return report(a, warm, curve, clock)

def report(a, warm, curve, clock):
    seconds = clock["gen"] + clock["train"]
    return dict(
        bench="pytorch_eager_frozen_lake",
        torch=torch.__version__,
        threads=a.threads,
        seed=a.seed,
        steps=a.steps - a.skip,
        trajectories_per_s=round(clock["trajectories"] / max(seconds, 1e-9), 1),
        gen_tokens_per_s=round((clock["prefill"] + clock["decoded"]) / max(clock["gen"], 1e-9)),
        decode_tokens_per_s=round(clock["decoded"] / max(clock["gen"], 1e-9)),
        train_tokens_per_s=round(clock["trained"] / max(clock["train"], 1e-9)),
        sft_tokens_per_s=round(warm["tokens"] / max(warm["seconds"], 1e-9)),
        gen_s=round(clock["gen"], 2),
        train_s=round(clock["train"], 2),
        sft_tokens=warm["tokens"],
        rl_tokens=clock["trained"],
        curve=curve,
    )

def options():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in dict(
        seed=1,
        threads=1,
        d=64,
        layers=2,
        heads=8,
        kv_heads=4,
        head_dim=16,
        ffn=192,
        theta=100.0,
        init=0.05,
        fmt="ans",
        event=1,
        seq_len=272,
        p_train=0.6,
        turns=8,
        penalty=-0.1,
        micro=8,
        sft_steps=3000,
        sft_batch=16,
        sft_lr=3e-3,
        sft_tail=0.3,
        sft_eval=0,
        expert=1.0,
        expert_end=0.3,
        ties="first",
        steps=39,
        groups=64,
        group=8,
        minis=8,
        epochs=1,
        lr=1e-3,
        lr_warm=5,
        lr_tail=0.0,
        clip_low=0.2,
        clip_high=0.28,
        ent=0.03,
        train_all=0,
        eval=10,
        skip=2,
    ).items():
        p.add_argument("--" + name.replace("_", "-"), type=type(value), default=value)
    return p.parse_args()

if __name__ == "__main__":
    print(json.dumps(run(options())))
