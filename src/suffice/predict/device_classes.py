"""Which class a device belongs to, from the name that tools, drivers and people write.

A class is a path from the general to the particular, such as ``gpu/nvidia gddr/ada``: calibration has a figure for every step of it, and a
device of an unknown generation keeps those of the steps that are known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_CACHE_NAMES: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClass:
    """Where calibration looks a device up.

    Attributes:
        path: from the general to the particular; one step at least.
        key: the product itself, in one spelling ("rtx 4090"), or None where the name does not say it.
    """

    path: tuple[str, ...]
    key: str | None

    @property
    def name(self) -> str:
        """The path as one text, as the tables of the documentation print it."""
        return "/".join(self.path)


# Before compute capability 6.1 there is no dot product of bytes (dp4a), which quantized kernels live on: a group of its own.
# (words that say the class, path). The first match wins; what is matched becomes the key of the product.
_GPU_PATTERNS: Final = (
    (r"gb10|dgx spark", "gpu unified/nvidia unified/gb10"),
    (r"jetson[\w ]*|agx \w+|orin[\w ]*|thor", "gpu unified/nvidia unified/jetson"),
    (r"\b(?:b100|b200|b300|gb200|gb300)\b", "gpu hbm/nvidia hbm/blackwell hbm"),
    (r"\b(?:gh200|h100|h200|h800|h20)\b", "gpu hbm/nvidia hbm/hopper"),
    (r"\b(?:a100x?|a800|a30)\b", "gpu hbm/nvidia hbm/ampere hbm"),
    (r"\b(?:v100s?|titan v|gv100)\b", "gpu hbm/nvidia hbm/volta"),
    (r"\b(?:p100|gp100)\b", "gpu old/nvidia no dp4a/pascal hbm"),
    (r"\bquadro rtx \d+\b", "gpu/nvidia gddr/turing"),
    (r"\b(?:rtx )?\d000 ada\b", "gpu/nvidia gddr/ada"),
    (r"\brtx ?50[5-9]\d(?: ?ti| ?d)?(?: ?super)?(?:[^/,]*laptop)?\b", "gpu/nvidia gddr/blackwell"),
    (r"\brtx pro \d{4}\b", "gpu/nvidia gddr/blackwell"),
    (r"\brtx ?40\d\d(?: ?ti| ?d)?(?: ?super)?(?:[^/,]*laptop)?\b", "gpu/nvidia gddr/ada"),
    (r"\b(?:l40s|l40|l20|l4|l2)\b", "gpu/nvidia gddr/ada"),
    (r"\brtx ?30\d\d(?: ?ti)?(?: ?super)?(?:[^/,]*laptop)?\b", "gpu/nvidia gddr/ampere"),
    (r"\b(?:rtx )?a[2456][05]00\b|\b(?:a10g|a10m|a10|a16|a40|a2)\b", "gpu/nvidia gddr/ampere"),
    (r"\b(?:rtx ?20\d\d(?: ?ti)?(?: ?super)?(?:[^/,]*laptop)?|t4g?|titan rtx|gtx ?16\d\d(?: ?ti)?|t1000)\b", "gpu/nvidia gddr/turing"),
    (r"\b(?:gtx ?10\d\d(?: ?ti)?|p4|p40|p102-100|p104-100|titan xp?|quadro p\d+)\b", "gpu/nvidia gddr/pascal"),
    (r"\b(?:k80|k40|m40|m60|gtx ?[79]\d\d(?: ?ti)?)\b", "gpu old/nvidia no dp4a/kepler"),
    (r"\b(?:mi[123]\d\dx?|instinct mi[123]\d\dx?)\b", "gpu hbm/amd hbm/cdna"),
    (r"\b(?:mi25|mi50|mi60|radeon vii|vega ?(?:56|64|frontier)|pro vii)\b", "gpu hbm/amd hbm/gcn hbm"),
    (r"strix halo|\b80[56]0s\b|ai max\+?(?: pro)?(?: \d+)?", "gpu unified/amd unified/strix halo"),
    (r"\b(?:[678]\d0m|890m|vega ?\d+|radeon graphics|strix point|phoenix)\b", "gpu unified/amd unified/small apu"),
    (r"\brx ?9\d\d\d(?: ?xtx| ?xt| ?gre)?\b|\br9[67]00d?\b", "gpu/amd gddr/rdna4"),
    (r"\b(?:rx ?7\d\d\d(?: ?xtx| ?xt| ?gre)?m?|(?:pro )?w7\d\d\d)\b", "gpu/amd gddr/rdna3"),
    (r"\b(?:rx ?6\d\d\d(?: ?xt)?m?|(?:pro )?w6\d\d\d|v620)\b", "gpu/amd gddr/rdna2"),
    (r"\b(?:rx ?5[567]\d\d(?: ?xt)?|bc-250)\b", "gpu/amd gddr/rdna1"),
    (r"\b(?:rx ?[45]\d\d|wx ?\d+|r9 \w+)\b", "gpu/amd gddr/polaris"),
    (r"\b(?:gpu max|max 1[15]50|max 1100)\b", "gpu hbm/intel hbm/ponte vecchio"),
    (r"\barc (?:pro )?b\d\d\d?\b|\bb5[78]0\b", "gpu/intel gddr/battlemage"),
    (r"\barc (?:pro )?a\d\d\d?m?\b|\bflex 1[47]0\b|\ba7[57]0\b", "gpu/intel gddr/alchemist"),
    (r"\b(?:arc 1[34]0[vt]|lunar lake|core ultra \d 2\d\dv)\b", "gpu unified/intel unified/lunar lake"),
    (r"\b(?:meteor lake|core ultra[\w ]*|iris xe|uhd(?: graphics)?|intel igpu|arrow lake)\b", "gpu unified/intel unified/older xe"),
    (r"\b(?:adreno[\w ]*|mali[\w -]*|snapdragon[\w ]*)\b", "gpu unified/phone gpu"),
)  # fmt: skip
_CPU_PATTERNS: Final = (
    (r"\bm[1-9](?: (?:pro|max|ultra))? cpu\b|apple m[1-9](?: (?:pro|max|ultra))?", "cpu/cpu apple"),
    (r"\bpi (?:\d|zero)\w*|raspberry pi \w+|rock ?\w+|orange pi[\w ]*|rk35\d\d|jetson[\w ]*", "cpu/cpu board"),
    (r"risc-v|p550|spacemit|milk-v|dc-roma|visionfive", "cpu/cpu board"),
    (r"\b(?:orion o6|ms-r1|cix p1|radxa[\w ]*|snapdragon[\w ]*)\b", "cpu/cpu arm pc"),
    (r"graviton ?\d\w*|\baltra\b|ampereone[\w -]*|\bampere\b|neoverse|kunpeng|yitian|cobalt|axion", "cpu/cpu server/cpu server arm"),
    (r"\bepyc[\w ]*|\bxeon[\w -]*|threadripper[\w ]*|sapphire rapids|granite rapids|emerald rapids|ice lake|\bm[67][ai]\b", "cpu/cpu server/cpu server x86"),
    (r"\bn(?:95|97|100|150|200|305)\b", "cpu/cpu pc/cpu pc small"),
    (r"\b(?:core )?i[3579][ -]\w+|core ultra[\w ]*|ryzen[\w ]*|\bfx-\d+|athlon[\w ]*|pentium[\w ]*|celeron[\w ]*", "cpu/cpu pc"),
)  # fmt: skip
_APPLE: Final = re.compile(r"\bm([1-9])(?: (pro|max|ultra))?\b")
_GPUS: Final = tuple((re.compile(words), tuple(path.split("/"))) for words, path in _GPU_PATTERNS)
_CPUS: Final = tuple((re.compile(words), tuple(path.split("/"))) for words, path in _CPU_PATTERNS)
_NOISE: Final = re.compile(r"nvidia|geforce|amd|radeon (?=rx|ai|pro|w)|intel\(r\)|\(r\)|\(tm\)|tesla|[()_]")
_HOST: Final = re.compile(r" in .*$")  # "RTX 4090 in Ryzen 9 7900X (Nvidia 4090)": what it sits in is not the device
_BLANKS: Final = re.compile(r"[\s-]*\s[\s-]*")
_SLICE: Final = re.compile(r"\b(?:a10|a16|a40|l4|l40s?|t4)-\d+q\b")


@lru_cache(maxsize=_CACHE_NAMES)
def classify(name: str, kind: str) -> DeviceClass:
    """The class of a device, from its name and its kind ("gpu", "apple", "cpu", "npu", ...).

    A name that is not known gives the class of its kind alone.

    >>> classify("NVIDIA GeForce RTX 4090", "gpu").name
    'gpu/nvidia gddr/ada'
    """
    text = _plain(name)
    if kind == "apple" or (kind in ("soc", "gpu") and "apple" in text and "cpu" not in text):
        return _apple(text) or DeviceClass(path=("apple",), key=None)
    if kind == "gpu":
        return _first(text, _GPUS) or DeviceClass(path=("gpu",), key=None)
    if kind in ("cpu", "soc", "platform", "cpu-class"):
        return _first(text, _CPUS) or DeviceClass(path=("cpu",), key=None)
    return DeviceClass(path=(kind,), key=text or None)


def is_gpu_slice(name: str) -> bool:
    """Whether a GPU's name is that of a virtual slice ("NVIDIA A16-2Q"): a share of the memory, and of the time."""
    return _SLICE.search(name.lower()) is not None


def _plain(name: str) -> str:
    text = _NOISE.sub(" ", _HOST.sub("", name.lower()))
    return _BLANKS.sub(" ", text).strip()


def _apple(text: str) -> DeviceClass | None:
    match = _APPLE.search(text)
    if match is None:
        return None
    tier = match[2] or "base"
    return DeviceClass(path=("apple", f"apple {tier}", f"apple m{match[1]}"), key=f"m{match[1]} {tier}")


def _first(text: str, patterns: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]) -> DeviceClass | None:
    for pattern, path in patterns:
        match = pattern.search(text)
        if match is not None:
            return DeviceClass(path=path, key=_BLANKS.sub(" ", match[0]).strip())
    return None
