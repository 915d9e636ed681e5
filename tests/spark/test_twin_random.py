"""Random topologies over random inputs: the twin gives, key by key, what the interpreter of the DSL gives.

`STOATFLOW_TEST_RANDOM_EXAMPLES=500` searches longer, with new cases each time.
"""

from __future__ import annotations

import twin_vectors
from hypothesis import given

from conformance.runner import Case
from semantics import random_cases
from semantics.moves import all_moves

# A global table is complete before anything else; what goes by the wall clock has none to go by.
ELSEWHERE = frozenset({"join_global_table", "global_table", "punctuate"})


@random_cases.searching(20)
@given(random_cases.cases(frozenset(all_moves()) - ELSEWHERE))
def test_the_twin_does_what_the_interpreter_does(case: Case) -> None:
    assert twin_vectors.judge(case, twin_vectors.run_here) == []
