"""Random topologies over random inputs: the twin's results equal, key by key, those of the DSL's interpreter.

`STOATFLOW_TEST_RANDOM_EXAMPLES=500` searches longer, with new cases each time.
"""

from __future__ import annotations

import twin_vectors
from hypothesis import given

from conformance.runner import Case
from semantics import random_cases
from semantics.moves import all_moves

# A global table is complete before anything else; there is no wall clock for operators that use it.
ELSEWHERE = frozenset({"join_global_table", "global_table", "punctuate"})


@random_cases.searching(20)
@given(random_cases.cases(frozenset(all_moves()) - ELSEWHERE))
def test_the_twin_does_what_the_interpreter_does(case: Case) -> None:
    assert twin_vectors.compare_case(case, twin_vectors.run_here) == []
