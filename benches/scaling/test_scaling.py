"""What the scaling report computes from its measurements, and what a point measures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import figures
import scaling
from fits import fit
from model import Costs, explained
from scaling import arguments, costs_of, least, models, table
from series import SERIES, order, orders
from thread_cpu import ROLES, cpu_by_role, role_of, spent


def point(x: int, cpu: float, **roles: float) -> dict[str, Any]:
    return {
        "x": x, "cpu_us": cpu, "by_role_us": dict.fromkeys(ROLES, 0.0) | roles, "functions_us": 2.0,
        "records_per_second": 100_000.0, "peak_rss_mb": 50.0, "records": 1000,
    }  # fmt: skip


def test_a_slope_is_the_exponent_of_growth() -> None:
    assert fit([(x, 3 * x**0.5) for x in (1, 10, 100)]).slope == pytest.approx(0.5)
    linear = fit([(x, 7.0 * x) for x in (2, 4, 8)])
    assert [linear.slope, linear.factor, linear.r2] == pytest.approx([1, 7, 1])
    flat = fit([(1, 5.0), (10, 5.0), (100, 5.0)])
    assert [flat.slope, flat.r2] == pytest.approx([0, 1])
    assert fit([(1, 1.0), (2, 5.0), (3, 1.0)]).r2 < 0.1, "no line goes through these"
    for points, why in (([(1, 1.0), (1, 2.0)], "two different points"), ([(1, 0.0), (2, 1.0)], "positive")):
        with pytest.raises(ValueError, match=why):
            fit(points)


def test_speedup_is_limited_by_the_busiest_thread() -> None:
    costs = Costs({"intake": 1.0, "commit": 0.5}, 4.5)
    assert costs.serial_share == pytest.approx(0.25)
    assert costs.in_turn(1) == pytest.approx(1e6 / 6)
    assert costs.in_turn(9) == pytest.approx(1e6 / 2)
    assert costs.in_turn(10**9) == pytest.approx(1e6 / 1.5)
    assert costs.side_by_side(1) == pytest.approx(1e6 / 6)
    assert costs.side_by_side(2) == pytest.approx(1e6 / 3)
    assert costs.side_by_side(6) == costs.side_by_side(96) == pytest.approx(1e6)
    assert (costs.narrowest, costs.enough_cores()) == ("intake", 6)
    assert all(costs.in_turn(cores) <= costs.side_by_side(cores) for cores in range(1, 200))
    text = explained("a job", costs, 123_456, 2)
    assert "intake 1.00 + commit 0.50 = 1.50; shared: 4.50; in all 6.00" in text
    assert "serial share 1.50 / 6.00 = 0.25" in text
    assert "8 cores: in turn 1e6 / (1.50 + 4.50 / 8) = 484,848; side by side" in text
    assert "side by side 1e6 / max(1.00, 6.00 / 8) = 1,000,000 records/s" in text
    assert "measured here, 2 cores: 123,456 records/s, 0.46 of the model in turn" in text


def test_costs_cover_the_modelled_lanes() -> None:
    points = [
        point(1, 9.0, intake=9.0) | {"functions_us": 2.0},
        point(4, 6.0, intake=1.0, commit=0.5, lanes=4.0, other=0.5) | {"functions_us": 3.5},
    ]
    native = costs_of("lanes", points, 4)
    assert (dict(native.serial), native.shared) == ({"intake": 1.0, "commit": 0.5}, 4.5)
    python = costs_of("lanes-functions", points, 8)
    assert python.serial["python"] == 2.0, "of one lane: with more it is also waiting"
    assert python.total == pytest.approx(6.0)
    points[1]["by_role_us"]["lanes"] = 1.5
    assert costs_of("lanes-functions", points, 4).serial["python"] == 1.5, "no more than lanes have used"
    found = models({"lanes": points, "keys": points}, 4)
    assert list(found) == ["lanes"]
    assert found["lanes"]["records_per_second"]["96"]["side_by_side"] == pytest.approx(1e6)


def test_threads_are_recognized_by_name(tmp_path: Path) -> None:
    for name, role in (
        ("stoatflow-intak", "intake"), ("stoatflow-commi", "commit"), ("stoatflow-lane-", "lanes"),
        ("stoatflow-worke", "lanes"), ("rocksdb:low0", "stores"), ("stoatflow-obser", "other"), ("python3", "other"),
    ):  # fmt: skip
        assert role_of(name) == role
    for number, (name, nanoseconds) in enumerate((("python3", 5), ("rocksdb:low0", 3), ("rocksdb:high0", 4)), 70):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "comm").write_text(name + "\n")
        (tmp_path / str(number) / "schedstat").write_text(f"{nanoseconds}000000000 1 2\n")
    # Without the scheduler's counter: fields 14 and 15, and a name with a bracket in it.
    (tmp_path / "99").mkdir()
    (tmp_path / "99" / "comm").write_text("stoatflow-commi\n")
    (tmp_path / "99" / "stat").write_text("99 (a ) b) S " + " ".join(["0"] * 10) + " 100 50 0\n")
    (tmp_path / "100").mkdir()  # a thread that has just ended
    found = cpu_by_role(tmp_path, first=70)
    assert {role: seconds for role, seconds in found.items() if seconds} == {"caller": 5, "stores": 7, "commit": 1.5}


def test_cpu_time_of_ended_threads_is_counted() -> None:
    before, after = dict.fromkeys(ROLES, 1.0), dict.fromkeys(ROLES, 1.0) | {"lanes": 4.0, "commit": 0.5}
    used = spent(before, after, 5.0)
    assert (used["lanes"], used["commit"], used["other"]) == (3.0, 0.0, 2.0)


def test_inputs_match_their_description() -> None:
    for size in (100, 300, 10_000):
        assert {len(order(n, size, n % 1000)) for n in (100_000, 199_999)} == {size}
    users = [key for _, key, _, _ in orders(5000, users=1000)]
    assert len(set(users)) == 1000
    assert max(users.count(key) for key in set(users)) == 5
    assert SERIES["record-size"].records(10_000, 200_000) == 30_000


def test_the_round_with_the_least_cpu_is_kept() -> None:
    assert least([point(1, 3.0), point(1, 2.0) | {"peak_rss_mb": 70.0}, point(1, 4.0)])["peak_rss_mb"] == 70.0
    text = table("lanes", [point(1, 2.0), point(2, 4.0)])
    assert "cost ~ x^+1.00 (R2 1.00)" in text


def test_figures_are_written_between_the_markers_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{figures.BEGIN}\nold\n{figures.END}\nbehind\n", "utf-8")
    found = {
        "machine": scaling.machine(),
        "conditions": {"records": 5000, "rounds": 2, "lanes": 4},
        "series": {"stores": [point(1, 2.0, lanes=1.5), point(10, 8.0, lanes=7.5)]},
        "fits": {"stores": {"slope": 0.602, "factor": 2.0, "r2": 1.0}},
        "models": {"lanes": {"arithmetic": "1 + 1 = 2"}},
    }
    found["machine"]["load"] = 0.2  # type: ignore[index]
    figures.put(page, found)
    text = page.read_text("utf-8")
    assert "Other work" not in text
    assert text.startswith(f"before\n{figures.BEGIN}\n")
    assert text.endswith(f"{figures.END}\nbehind\n")
    assert "old" not in text
    assert "| 10 | **8.00** | 0.00 | 0.00 | 7.50 | 0.00 | 0.00 | 50 |" in text
    assert "x^0.60 (R² 1.00)" in text
    assert "```text\n1 + 1 = 2\n```" in text
    figures.put(page, found)
    assert page.read_text("utf-8") == text, "again is the same"
    found["machine"]["load"] = 2.2  # type: ignore[index]
    assert "The load before was 2.2.\n\nOther work kept the cores busy" in figures.as_markdown(found)
    page.write_text("nothing", "utf-8")
    with pytest.raises(ValueError, match="has no place for figures"):
        figures.put(page, found)


def test_arguments_are_checked() -> None:
    assert arguments([]).series == list(SERIES)
    for refused in (["--series", "lanes,cores"], ["--rounds", "0"]):
        with pytest.raises(SystemExit):
            arguments(refused)


@pytest.mark.parametrize(("name", "x"), [("lanes-functions", 2), ("state", 300), ("stores", 2), ("re-keyings", 2)])
def test_a_point_is_measured(name: str, x: int) -> None:
    # Enough records for a sample while they are processed; a slow machine may need another try.
    for _ in range(5):
        found = scaling.run(name, x, 40_000, 2)
        if min(found["by_role_us"][role] for role in ("intake", "lanes")) > 0:
            break
    assert (found["x"], found["records"]) == (x, 40_000)
    assert found["cpu_us"] > 0
    assert found["by_role_us"]["intake"] > 0
    assert found["by_role_us"]["lanes"] > 0
    # Ticks of the process and nanoseconds of its threads are rounded differently.
    assert sum(found["by_role_us"].values()) == pytest.approx(found["cpu_us"], rel=0.2, abs=8)
    assert (found["functions_us"] > 0) is (name == "lanes-functions")


def test_a_point_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "TIMEOUT_S", 0.05)
    with pytest.raises(scaling.PointError, match=r"stores at 1 was not done after 0\.05 s"):
        scaling.run("stores", 1, 100, 1)


def test_a_point_that_fails_says_why() -> None:
    with pytest.raises(scaling.PointError, match=r"lanes at 0 failed(.|\n)*lanes\.count"):
        scaling.run("lanes", 0, 100, 1)
