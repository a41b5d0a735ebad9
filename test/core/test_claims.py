"""One query, one claim."""

from __future__ import annotations

import threading

from semflip_core.claims import Claim


def test_only_the_first_of_many_threads_gets_it() -> None:
    for _ in range(50):
        claim = Claim("q", deadline=0.0)
        barrier = threading.Barrier(8)
        won: list[str] = []

        def race(name: str, claim: Claim = claim, barrier=barrier, won=won) -> None:
            barrier.wait()
            if claim.take(name):
                won.append(name)

        threads = [threading.Thread(target=race, args=(str(i),)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert claim.owner == won[0]


def test_a_claim_taken_without_a_name_is_taken() -> None:
    claim = Claim("q", deadline=0.0)
    assert not claim.taken
    assert claim.take("")
    assert claim.taken
    assert not claim.take("late")


def test_a_deadline_is_reached_not_passed() -> None:
    claim = Claim("q", deadline=10.0)
    assert not claim.expired(9.999)
    assert claim.expired(10.0)
