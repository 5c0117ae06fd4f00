"""Laws of the catalogue: spellings, ages, prices of Windows, and the reading of price files."""

from __future__ import annotations

from contextlib import suppress
from datetime import date

from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.catalogue.ages import age_days, is_newer
from suffice.catalogue.azure import WINDOWS_SURCHARGE_PER_VCPU, windows_prices
from suffice.catalogue.names import plain
from suffice.catalogue.price_files import PRICE_FILES, machine_prices
from suffice.errors import UsageError

DAYS = st.dates(date(2015, 1, 1), date(2035, 12, 31))
AWS = PRICE_FILES[0]


@given(st.text(max_size=50))
def test_a_plain_name_is_its_own_spelling(text: str) -> None:
    """Simplifying twice changes nothing, and neither does surrounding or doubled punctuation."""
    assert plain(plain(text)) == plain(text)
    assert plain(f"  {text}__") == plain(text)


@given(DAYS, DAYS)
def test_newer_and_younger_agree(one: date, other: date) -> None:
    """What is newer is never older in days; nothing is newer than itself; not both are newer."""
    today = date(2036, 1, 1)
    first, second = one.isoformat(), other.isoformat()
    if is_newer(first, second):
        assert (age_days(first, today) or 0) < (age_days(second, today) or 0)
        assert not is_newer(second, first)
    assert not is_newer(first, first)


@given(
    rate=st.floats(0.02, 0.4),
    sizes=st.lists(st.sampled_from([2, 4, 8, 16, 32, 48, 64, 96]), min_size=2, max_size=8, unique=True),
    data=st.data(),
)
@settings(max_examples=60)
def test_prices_of_windows_are_found_wherever_one_of_linux_is_left(
    rate: float, sizes: list[int], data: st.DataObject
) -> None:
    """Add the surcharge to all but one size of a family: just those are found, at any rate."""
    windows = set(data.draw(st.lists(st.sampled_from(sizes[1:]), unique=True)))
    prices = {
        f"Standard_D{n}as_v5": round(n * (rate + (WINDOWS_SURCHARGE_PER_VCPU if n in windows else 0)), 3) for n in sizes
    }
    assert windows_prices(prices) == {f"Standard_D{n}as_v5" for n in windows}


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9]{0,5}\.[a-z0-9]{1,8}", fullmatch=True),
        st.integers(1, 10**8).map(lambda n: n / 10**6),
        min_size=1,
        max_size=20,
    )
)
@settings(max_examples=60)
def test_a_price_file_is_read_as_it_was_written(prices: dict[str, float]) -> None:
    """Every price of the region comes back, and the day."""
    rows = ",\n".join(f'\t\t"{name}": {price:.6f}' for name, price in prices.items())
    day, found = machine_prices(AWS, f'// generated at 2026-01-02T\n"us-east-1": {{\n{rows},\n}}')
    assert day == "2026-01-02"
    assert {name: price for name, (price, _) in found.items()} == prices


@given(st.text(max_size=300))
def test_any_text_is_prices_or_one_sentence(text: str) -> None:
    """Nothing but an error of ours comes out of a strange file."""
    for file in PRICE_FILES[:4]:
        with suppress(UsageError):
            assert machine_prices(file, text)[1]
