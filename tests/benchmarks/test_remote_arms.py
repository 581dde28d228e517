from pathlib import Path

import httpx2

from benchmarks.remote_arms import FAULTS, ArmReply, Proxy, ask, declared
from tests.service.arms.fakes import Remote
from wye.service.arms.arm import RemoteArm
from wye.service.arms.file import read_arms


def arm_at(url: str, folder: Path) -> RemoteArm:
    path = folder / "wye.toml"
    path.write_text(declared(url, 1000), encoding="utf-8")
    (arm,) = read_arms(path, ["default"], 5.0)["default"]
    return arm


async def test_the_proxy_fails_as_it_is_told_to(remote: Remote, tmp_path: Path) -> None:
    passage = {"id": "a", "text": "Text.", "title": "", "score": 0.5, "metadata": {}}
    remote.reply = {"passages": [passage], "degraded": ""}
    async with Proxy(remote.url, 0.3, 0) as proxy:
        arm = arm_at(proxy.url, tmp_path)
        fine = await arm.search("?", 5, None, 5.0)
        assert (fine.outcome, fine.hits[0].id, fine.spent) == ("ok", "a", 0.02)
        assert fine.seconds > 0.2
        proxy.faulty = 1.0
        outcomes = {}
        for fault in FAULTS:
            proxy.faults = (fault,)
            outcomes[fault] = (await arm.search("?", 5, None, 5.0)).outcome
            arm.breaker.succeed()
        await arm.close()
    assert outcomes == {
        "refused": "broken",
        "hanging": "timeout",
        "slow": "timeout",
        "garbled": "garbled",
        "busy": "refused",
        "broken": "broken",
    }


async def test_a_question_is_timed(remote: Remote) -> None:
    remote.reply = {"arms": {"remote": {"remote": {"calls": 1}}}}
    async with httpx2.AsyncClient(base_url=remote.url) as client:
        reply = await ask(client, "Which?", route="graph")
        remote.mode = 503
        refused = await ask(client, "Which?")
    assert reply.called
    assert reply.seconds > 0
    assert remote.asked[0] == {"question": "Which?", "k": 10, "route": "graph"}
    assert refused == ArmReply(503, refused.seconds, {})
    assert not refused.called
