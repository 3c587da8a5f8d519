#!/usr/bin/env python3
"""Writes tests/data/tokenizers/*.json: small tokenizers of each pipeline, trained on words of ours,
and what the reference makes of texts.

usage: make_tokenizer_vectors.py [--lines N] [--seed N] [--out FOLDER]
needs: the package tokenizers 0.22. More lines and another seed make a longer test of the same kind.

NAME.json: {"tokenizer": a tokenizer.json, "cases": [{"text", "ids", "bare": without the
post-processor's ids (absent: the same), "plain": without special tokens in the text either (absent:
as bare), "decoded" (absent: the text), "skipped": decoded without special tokens (absent: as
decoded), "pieces": what each id adds to a stream}]}.
parts.json: {"pre_tokenizers": [{"json", "text", "pieces"}], "normalizers": [{"json", "text",
"result"}]}.
"""

import argparse
import json
import os
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, processors, trainers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
DEEPSEEK = [
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^" + "\r\n" + r"\p{L}\p{P}\p{S}]?"
    r"[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[" + "\r\n" + r"]*|\s*[" + "\r\n" + r"]+|\s+(?!\S)|\s+",
]
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Known to no scanner: possessive loops, a counted loop that repeats, anchors, look-ahead.
POSSESSIVE = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
# Kimi: classes that are intersected, and a script.
KIMI = (
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BORDERS = r"\b[\w&&[^\p{Han}\d]]+\b|\B\P{Han}"
CORPUS = """The lake is frozen and the wind blows from the north. A robot walks over the ice.
It cannot see the holes, but it's told where they are, and it doesn't fall in often.
12 + 34 = 46, 7 * 8 = 56; is 100000 larger than 99999? Yes, it is.
def walk(map, at):\n    for step in path(map, at):\n        yield step  # one field on
Der See ist zugefroren, größer als gestern. Le lac est gelé, déjà. Озеро замёрзло. 湖は凍った。
湖面结冰了,机器人在冰上行走。 호수가 얼었다. البحيرة متجمدة. झील जम गई है। 😀 👍🏽
We'll say they've won; I'M sure she'D go. HTTPServer, camelCase, snake_case, x->y, {"a": [1, 2]}
""".split("\n")
ATOMS = (
    "the robot walks don't WE'LL it'ſ 'S's they've 'lls HTTPServer camelCase snake_case größer "
    "gelé озеро 湖 湖面结冰了 ロボット こんにちは ガ 호수 안녕 البحيرة जम 👍🏽 👨\u200d👩\u200d👧 ❤\ufe0f ½ Ⅷ ① ٣٤ １２ "
    '10² 3.14 1,000,000 12345678 7 x->y {"a":[1]} #include // \\n\\t == != … — “q” $5 ∑ √2 ﬁ '
    "ß İ ı Å é ǆ ǅ ª ʰ Ω e\u0301 A\u030a a\u0323\u0307 o\u0302\u0323 \u1100\u1161\u11a8 "
    "\u0301x ẛ\u0323 क\u093c \u0344 Ω \u0340 <|end|> <|turn|> <|en <tool> </tool> <mask> "
    "<right> whole wholesome caféx cafe\u0301x <s> </s> <unk> <0x41> ▁ \u00ad \u200b \u200d "
    "\ufeff \u0000 \u007f � \ue000 \U0010ffff \U000323b0 \U00016d40 ອ\u0eba\u0301"
).split(" ")
SPACES = [
    " ",
    " ",
    " ",
    "",
    "",
    "  ",
    "   ",
    "\t",
    "\n",
    "\n\n",
    "\r\n",
    " \n ",
    "\u00a0",
    "\u3000",
    "\u2003",
    "\u0085",
    "\x0b",
    "\u2028",
]


def random_text(rng):
    kind = rng.random()
    if kind < 0.15:
        planes = [
            (0x20, 0x24F),
            (0x300, 0x36F),
            (0x370, 0x1FFF),
            (0x2000, 0x2BFF),
            (0x3000, 0x9FFF),
            (0xAC00, 0xD7A3),
            (0x10000, 0x1E950),
            (0x1F000, 0x1FAFF),
        ]
        return "".join(chr(rng.randint(*rng.choice(planes))) for _ in range(rng.randint(1, 12)))
    atoms = [rng.choice(ATOMS) + rng.choice(SPACES) for _ in range(rng.randint(1, 7))]
    return rng.choice(SPACES + [""] * 9) + "".join(atoms)


def with_added(t):
    """Added tokens with each flag."""
    t.add_special_tokens(
        [
            AddedToken("<|end|>", normalized=False),
            AddedToken("<|turn|>", normalized=False),
            AddedToken("<mask>", lstrip=True, normalized=False),
            AddedToken("<right>", rstrip=True, normalized=False),
        ]
    )
    t.add_tokens(
        [
            AddedToken("<tool>", normalized=False),
            AddedToken("</tool>", normalized=True),
            AddedToken("whole", single_word=True, normalized=False),
            AddedToken("caf\u00e9x", normalized=True),
        ]
    )
    return t


def byte_level(pre, normalizer=None, size=330, post=None, **model):
    t = Tokenizer(models.BPE(**model))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    if post:
        t.post_processor = post
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    t.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=size, special_tokens=[], initial_alphabet=alphabet, show_progress=False
        ),
    )
    return with_added(t)


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior=behavior, invert=invert)


def bytes_only(**options):
    return pre_tokenizers.ByteLevel(**{"add_prefix_space": False, "use_regex": False, **options})


def template(name, number):
    return processors.TemplateProcessing(single=f"{name} $A", special_tokens=[(name, number)])


def sentencepiece(pre=None, normalizer=None, decoder=None, fallback=True, fuse=True, rebuild=None):
    """A byte-fallback BPE, trained per word, then used with the pipeline that is asked for."""
    t = Tokenizer(models.BPE(byte_fallback=fallback, unk_token="<unk>", fuse_unk=fuse))
    t.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    t.pre_tokenizer = split("\u2581+[^\u2581]*")
    special = ["<unk>", "<s>", "</s>"] + ([f"<0x{i:02X}>" for i in range(256)] if fallback else [])
    t.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=len(special) + 170,
            special_tokens=special,
            limit_alphabet=70,
            show_progress=False,
        ),
    )
    data = json.loads(t.to_str())
    data["added_tokens"] = data["added_tokens"][:3]
    data["post_processor"] = json.loads(template("<s>", 1).__getstate__())
    data["pre_tokenizer"] = pre and json.loads(pre.__getstate__())
    data["normalizer"] = normalizer and json.loads(normalizer.__getstate__())
    data["decoder"] = json.loads(decoder.__getstate__())
    if rebuild:
        rebuild(data)
    return Tokenizer.from_str(json.dumps(data))


def merges_as_text(data):
    data["model"]["merges"] = [" ".join(pair) for pair in data["model"]["merges"]]


def llama3():
    """ignore_merges, and a token that no merge makes."""
    t = byte_level(pre_tokenizers.Sequence([split(LLAMA3), bytes_only()]), post=None)
    data = json.loads(t.to_str())
    data["model"]["ignore_merges"] = True
    size = len(data["model"]["vocab"])
    data["model"]["vocab"].update({"\u0120robotics": size, "123": size + 1})
    for token in data["added_tokens"]:
        token["id"] += 2
    sequence = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            template("<|end|>", t.token_to_id("<|end|>") + 2),
        ]
    )
    data["post_processor"] = json.loads(sequence.__getstate__())
    return Tokenizer.from_str(json.dumps(data))


def pipelines():
    mark = "\u2581"
    replace = decoders.Replace(mark, " ")
    llama2 = decoders.Sequence(
        [replace, decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    start = normalizers.Sequence([normalizers.Prepend(mark), normalizers.Replace(" ", mark)])
    space = pre_tokenizers.Metaspace
    yield "qwen2", byte_level(
        pre_tokenizers.Sequence([split(QWEN2), bytes_only()]),
        normalizers.NFC(),
        post=processors.ByteLevel(trim_offsets=False),
    )
    yield "llama3", llama3()
    yield "deepseek", byte_level(
        pre_tokenizers.Sequence([split(p) for p in DEEPSEEK] + [bytes_only()]),
        normalizers.Sequence([]),
    )
    yield "gpt2", byte_level(bytes_only(use_regex=True, add_prefix_space=True))
    yield "smollm2", byte_level(
        pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), bytes_only(use_regex=True)]
        )
    )
    yield "tekken", byte_level(pre_tokenizers.Sequence([split(TEKKEN), bytes_only()]))
    yield "possessive", byte_level(pre_tokenizers.Sequence([split(POSSESSIVE), bytes_only()]))
    yield "llama2", sentencepiece(None, start, llama2, rebuild=merges_as_text)
    yield "metaspace_first", sentencepiece(
        space(prepend_scheme="first", split=False), None, decoders.Metaspace(prepend_scheme="first")
    )
    yield "metaspace_split", sentencepiece(
        space(prepend_scheme="always", split=True),
        normalizers.NFC(),
        decoders.Metaspace(prepend_scheme="always"),
        fallback=False,
        fuse=False,
    )
    yield "unknown_fused", sentencepiece(
        None, start, decoders.Sequence([replace, decoders.Fuse()]), fallback=False
    )


def dropping(data):
    """No token for an unknown character: it is dropped, and its neighbours may join across it."""
    del data["model"]["unk_token"]
    vocab = data["model"]["vocab"]
    joined = ["\u2581\u2581", "\u2581\u2581\u2581", "e\u2581"]
    vocab.update({token: len(vocab) + i for i, token in enumerate(joined)})
    data["model"]["merges"] += [["\u2581", x] for x in ("\u2581", "\u2581\u2581")]


def some_bytes(data):
    """Byte fallback for some bytes only, and no unk_token: other characters are dropped."""
    dropping(data)
    for token in [x for x in data["model"]["vocab"] if x.startswith("<0xE")]:
        data["model"]["vocab"]["gone" + token] = data["model"]["vocab"].pop(token)


def spaces_added():
    """Added tokens of white space, which an added token before may strip."""
    t = byte_level(bytes_only(use_regex=True))
    t.add_special_tokens([AddedToken("<r>", rstrip=True, normalized=False)])
    t.add_tokens([AddedToken("\n", normalized=False)])
    t.add_tokens([AddedToken("\t", lstrip=True, rstrip=True, normalized=False)])
    return t


def more_pipelines():
    mark = "\u2581"
    space = pre_tokenizers.Metaspace
    start = normalizers.Sequence([normalizers.Prepend(mark), normalizers.Replace(" ", mark)])
    fuse = decoders.Sequence([decoders.Replace(mark, " "), decoders.Fuse()])
    yield "unknown_dropped", sentencepiece(None, start, fuse, fallback=False, rebuild=dropping)
    yield "bytes_dropped", sentencepiece(None, start, fuse, rebuild=some_bytes)
    yield "fallback_metaspace", sentencepiece(
        space(prepend_scheme="never", split=False),
        None,
        decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="always")]),
    )
    yield "spaces_added", spaces_added()
    yield "kimi", byte_level(pre_tokenizers.Sequence([split(KIMI), bytes_only()]))
    yield "borders", byte_level(pre_tokenizers.Sequence([split(BORDERS), bytes_only()]))


def stream(t, ids):
    given, pieces = "", []
    for i in range(len(ids)):
        text = t.decode(ids[: i + 1], skip_special_tokens=False)
        if text.endswith("\ufffd") or not text.startswith(given):
            pieces.append("")
            continue
        pieces.append(text[len(given) :])
        given = text
    return pieces


def case_of(t, text):
    case = {"text": text, "ids": t.encode(text).ids}
    bare = t.encode(text, add_special_tokens=False).ids
    t.encode_special_tokens = True
    plain = t.encode(text, add_special_tokens=False).ids
    t.encode_special_tokens = False
    decoded = t.decode(case["ids"], skip_special_tokens=False)
    skipped = t.decode(case["ids"], skip_special_tokens=True)
    for key, value, otherwise in (
        ("bare", bare, case["ids"]),
        ("plain", plain, bare),
        ("decoded", decoded, text),
        ("skipped", skipped, decoded),
    ):
        if value != otherwise:
            case[key] = value
    case["pieces"] = stream(t, case["ids"])
    return case


def parts_cases(rng, count):
    pres, norms = [], []
    patterns = [
        r"\d+",
        r"\s",
        "[aeiou]",
        r"\p{Lu}",
        r"(?=[A-Z])",
        "x*",
        r"(?:ab|a)(?!b)",
        r"[^\w\s]+?",
        "-",
    ]
    for behavior in (
        "removed",
        "isolated",
        "merged_with_previous",
        "merged_with_next",
        "contiguous",
    ):
        for pattern in patterns:
            for invert in (False, True):
                pres.append(split(pattern, behavior, invert))
        pres.append(pre_tokenizers.Split("--", behavior))
    pres += [pre_tokenizers.Digits(individual_digits=x) for x in (False, True)]
    pres += [
        pre_tokenizers.Metaspace(prepend_scheme=s, split=x)
        for s in ("first", "never", "always")
        for x in (False, True)
    ]
    pres += [split(p) for p in [QWEN2, LLAMA3, *DEEPSEEK, TEKKEN, POSSESSIVE]]
    out = {"pre_tokenizers": [], "normalizers": []}
    for pre in pres:
        for _ in range(count):
            text = rng.choice([random_text(rng), "ab--aB 12-x3 --axx  Zed--", "--", "aab x"])
            out["pre_tokenizers"].append(
                {
                    "json": json.loads(pre.__getstate__()),
                    "text": text,
                    "pieces": [p for p, _ in pre.pre_tokenize_str(text)],
                }
            )
    norms = [
        normalizers.NFC(),
        normalizers.Prepend("_"),
        normalizers.Replace(Regex(r"\s+"), " "),
        normalizers.Replace("a", "bb"),
        normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex("(?i:k)"), "c")]),
    ]
    for norm in norms:
        for _ in range(4 * count):
            text = random_text(rng)
            out["normalizers"].append(
                {
                    "json": json.loads(norm.__getstate__()),
                    "text": text,
                    "result": norm.normalize_str(text),
                }
            )
    return out


def write(folder, name, value):
    path = os.path.join(folder, name + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")
    print(path, os.path.getsize(path), "bytes")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lines", type=int, default=40)
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--out", default=os.path.join(ROOT, "tests", "data", "tokenizers"))
    options = parser.parse_args()
    rng = random.Random(options.seed)
    for name, t in pipelines():
        texts = ["", *(random_text(rng) for _ in range(options.lines))]
        write(
            options.out,
            name,
            {"tokenizer": json.loads(t.to_str()), "cases": [case_of(t, x) for x in texts]},
        )
    write(options.out, "parts", parts_cases(rng, options.parts))
    for name, t in more_pipelines():
        texts = ["", *(random_text(rng) for _ in range(options.lines))]
        if name == "spaces_added":
            atoms = ["<r>", " ", "\n", "\t", "a", "b ", "  ", "<right>", "\u3000"]
            texts += ["".join(rng.choices(atoms, k=rng.randint(1, 9))) for _ in texts]
        cases = [case_of(t, x) for x in texts]
        write(options.out, name, {"tokenizer": json.loads(t.to_str()), "cases": cases})


if __name__ == "__main__":
    main()
