"""Make items for `suffice quants` from templates: the four small sets in examples/items, or a large one for timing.

Everything is written here, with a seed: no data set of others is in it. The questions are easy on purpose, so that a model of 135 million
parameters can do a part of them and loses some when it is quantized hard.

    python benchmarks/make_items.py --out examples/items
    python benchmarks/make_items.py --choices 1000 --out many.jsonl
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Row = dict[str, Any]

SEED = 20261130
TRIES_PER_ITEM = 10
SETS = (("choices", 60), ("json", 40), ("number", 40), ("chinese", 24))

THINGS = (
    "hotel room|phone|restaurant|film|headset|train ride|coffee machine|laptop|garden tour|book|jacket|concert|bakery|vacuum cleaner|"
    "language course|camera|bicycle|museum|pizza|printer|tent|software update|ferry|dentist|rental car|office chair|board game|blender"
).split("|")
VERDICTS = {
    "positive": (
        "was wonderful|is the best that I ever had|made me very happy|works perfectly|was worth every cent|exceeded all my hopes|"
        "was a real pleasure|is excellent|was lovely from start to end|is simply great"
    ).split("|"),
    "negative": (
        "was terrible|is the worst that I ever had|made me very angry|broke after one day|was a waste of money|disappointed me completely|"
        "was a real pain|is awful|was dreadful from start to end|is simply useless"
    ).split("|"),
}
REASONS = {
    "positive": (
        "I will come back soon.|I recommend it to everybody.|The staff was kind and quick.|My whole family loved it.|"
        "I would buy it again at once.|Everything was clean and well made.|I smiled all day.|Ten out of ten."
    ).split("|"),
    "negative": (
        "I will never come back.|I warn everybody about it.|The staff was rude and slow.|My whole family hated it.|"
        "I want my money back.|Everything was dirty and badly made.|I was upset all day.|One star is too much."
    ).split("|"),
}
TOPICS = {
    "sports": (
        "The striker scored {n} goals in the second half.|The team won the final after {n} minutes of extra time.|"
        "She ran the marathon in a new record, {n} seconds faster.|The coach changed {n} players before the match.|"
        "The tennis champion needed {n} sets to win the tournament.|The goalkeeper saved {n} penalties in the cup."
    ).split("|"),
    "business": (
        "The company's shares rose by {n} percent after strong sales.|The bank cut its interest rate by {n} basis points.|"
        "The retailer will open {n} new stores and hire staff.|Profits of the car maker fell by {n} percent this quarter.|"
        "The two firms agreed on a merger worth {n} billion dollars.|Investors sold bonds as inflation reached {n} percent."
    ).split("|"),
    "science": (
        "Researchers found {n} new planets with the telescope.|The experiment measured the particle {n} times.|"
        "Biologists described {n} unknown species of beetles.|Chemists made a molecule with {n} rings in the laboratory.|"
        "The probe sent {n} pictures from the moon of Saturn.|The study of DNA from {n} fossils changes the theory."
    ).split("|"),
    "food": (
        "Bake the cake for {n} minutes and let it cool.|Chop {n} onions and fry them in butter.|The cook adds {n} spoons of sugar to the cream.|"
        "This soup needs {n} carrots, salt and fresh herbs.|Knead the bread dough {n} times before it rests.|"
        "The recipe asks for {n} eggs, flour and vanilla."
    ).split("|"),
}
NAMES = "Anna|Ben|Clara|David|Emma|Felix|Grace|Henry|Ida|Jack|Kate|Leo|Mia|Noah|Olga|Paul|Rosa|Sam|Tina|Victor".split(
    "|"
)
SURNAMES = (
    "Adams|Baker|Clark|Evans|Fischer|Green|Hughes|Jensen|Keller|Lopez|Moreau|Novak|Olsen|Parker|Rossi|Schmidt".split(
        "|"
    )
)
CITIES = "Berlin|Paris|Madrid|Oslo|Vienna|Rome|Dublin|Prague|Lisbon|Warsaw|Zurich|Helsinki|Athens|Brussels".split("|")
GOODS = "apples|books|chairs|lamps|pens|plates|shirts|tickets|bottles|cups|stamps|bricks|candles|towels".split("|")
CHINESE_THINGS = "酒店|手机|餐厅|电影|耳机|火车|咖啡机|电脑|公园|小说|外套|音乐会".split("|")
CHINESE_VERDICTS = {
    "正面": "非常好，我很喜欢|质量很棒，值得购买|让我非常满意|服务热情，下次还来".split("|"),
    "负面": "非常差，我很讨厌|质量很糟，浪费钱|让我非常失望|服务恶劣，再也不来".split("|"),
}
CHINESE_GOODS = "苹果|书|椅子|铅笔|杯子|邮票".split("|")


def choice_items(rng: random.Random) -> Iterator[Row]:
    """Sentiment (two choices) and topic (four choices) in turn, each label as often as the others."""
    while True:
        for label in rng.sample(sorted(VERDICTS), 2):
            text = f"The {rng.choice(THINGS)} {rng.choice(VERDICTS[label])}. {rng.choice(REASONS[label])}"
            prompt = f"Review: {text}\nIs this review positive or negative? Answer with one word.\nAnswer:"
            yield {"prompt": prompt, "choices": ["positive", "negative"], "answer": label, "score": "multiple_choice"}
        for label in rng.sample(sorted(TOPICS), 2):
            text = rng.choice(TOPICS[label]).format(n=rng.randint(4, 99))
            prompt = f"Text: {text}\nIs the topic of this text sports, business, science or food? Answer with one word.\nAnswer:"
            yield {"prompt": prompt, "choices": sorted(TOPICS), "answer": label, "score": "multiple_choice"}


def json_items(rng: random.Random) -> Iterator[Row]:
    """Two questions on each letter: its sender, and its order. They share a group."""
    number = 0
    while True:
        number += 1
        name, city = f"{rng.choice(NAMES)} {rng.choice(SURNAMES)}", rng.choice(CITIES)
        count, goods, price = rng.randint(2, 60), rng.choice(GOODS), rng.randint(100, 9999) / 100
        example = _letter("Tom Hill", "Milan", 3, "rugs", 12.5)
        letter = _letter(name, city, count, goods, price)
        for asked, shown, answer in (
            ("the sender", {"name": "Tom Hill", "city": "Milan"}, {"name": name, "city": city}),
            ("the order", _order(3, "rugs", 12.5), _order(count, goods, price)),
        ):
            task = f"Write {asked} as JSON, and nothing else.\nLetter: "
            yield {
                "messages": [
                    {"role": "user", "content": task + example},
                    {"role": "assistant", "content": json.dumps(shown)},
                    {"role": "user", "content": task + letter},
                ],
                "answer": answer,
                "score": {"kind": "json", "ignore_case": True},
                "group": f"letter-{number}",
                "max_tokens": 64,
            }


def _letter(name: str, city: str, count: int, goods: str, price: float) -> str:
    return f"My name is {name} and I live in {city}. Please send me {count} {goods} at {price:.2f} euros each."


def _order(count: int, goods: str, price: float) -> Row:
    return {"order": {"count": count, "goods": goods, "price": price}}


def number_items(rng: random.Random) -> Iterator[Row]:
    """A number to read and one to compute, in turn."""
    while True:
        name, goods, first, second = rng.choice(NAMES), rng.choice(GOODS), rng.randint(2, 9), rng.randint(2, 9)
        total = rng.randint(1000, 99_999) / 10
        bill = f"Bill of {name}, {rng.choice(CITIES)}: {first} {goods}, total {total:,.2f} euros, due in {second * 7} days."
        yield {
            "prompt": f"{bill}\nWhat is the total in euros? Answer with the number only.",
            "answer": total,
            "score": {"kind": "number", "tolerance": 0.005},
            "max_tokens": 24,
        }
        yield {
            "prompt": f"{name} has {first} {goods} and gets {second} more. How many {goods} does {name} have now? Answer with the number only.",
            "answer": first + second,
            "score": "number",
            "max_tokens": 24,
        }


def chinese_items(rng: random.Random) -> Iterator[Row]:
    """Sentiment, a sum, and a city to be named, in Chinese."""
    while True:
        label = rng.choice(sorted(CHINESE_VERDICTS))
        prompt = f"评论：这个{rng.choice(CHINESE_THINGS)}{rng.choice(CHINESE_VERDICTS[label])}。\n这条评论是正面还是负面？答案："
        yield {"prompt": prompt, "choices": ["正面", "负面"], "answer": label, "score": "multiple_choice"}
        first, second, goods = rng.randint(2, 9), rng.randint(2, 9), rng.choice(CHINESE_GOODS)
        prompt = f"小明有{first}个{goods}，又得到{second}个{goods}。他现在有几个{goods}？只回答数字。"
        yield {"prompt": prompt, "answer": first + second, "score": "number", "max_tokens": 64}
        city = rng.choice(("北京", "上海", "广州", "成都", "西安", "杭州"))
        prompt = f"{rng.choice('王李张刘陈')}{rng.choice(('伟', '芳', '娜', '静'))}住在{city}，{rng.randint(20, 60)}岁。问：他住在哪个城市？"
        yield {"prompt": prompt, "answer": city, "score": "contains", "max_tokens": 48}


MAKERS: dict[str, Callable[[random.Random], Iterator[Row]]] = {
    "choices": choice_items,
    "json": json_items,
    "number": number_items,
    "chinese": chinese_items,
}


def made(kind: str, count: int, seed: int) -> list[Row]:
    """That many different items of a kind, always the same for a seed."""
    rows: list[Row] = []
    seen: set[str] = set()
    rng = random.Random(f"{kind} {seed}")  # noqa: S311  # no secret is made of it
    for tries, row in enumerate(MAKERS[kind](rng)):
        if len(rows) == count:
            break
        if tries > TRIES_PER_ITEM * count:
            raise SystemExit(f"the templates make only {len(rows)} different items of {kind}")
        question = str(row.get("prompt", row.get("messages")))
        if question not in seen:
            seen.add(question)
            rows.append({"id": f"{kind}-{len(rows) + 1:04}", **row})
    return rows


def write(path: Path, rows: list[Row]) -> None:
    """One item a line."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8", newline="\n")
    print(f"{path}: {len(rows)} items")


def main() -> None:
    """Write the sets, or one large one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="a folder for the four sets, or a file with --choices")
    parser.add_argument("--choices", type=int, help="only that many multiple-choice items")
    parser.add_argument("--seed", type=int, default=SEED)
    asked = parser.parse_args()
    if asked.choices is not None:
        write(asked.out, made("choices", asked.choices, asked.seed))
        return
    asked.out.mkdir(parents=True, exist_ok=True)
    for kind, count in SETS:
        write(asked.out / f"{kind}.jsonl", made(kind, count, asked.seed))


if __name__ == "__main__":
    main()
