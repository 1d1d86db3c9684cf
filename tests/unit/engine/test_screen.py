"""What is shown while a launch goes on: nothing that the record doesn't have yet."""

from __future__ import annotations

import json

from tests.helpers.few import Launches


def test_what_is_shown_has_been_written_down(launches: Launches) -> None:
    written = list[list[int]]()

    def look(name: str) -> None:
        record = json.loads((launches.folder / "record.json").read_text(encoding="utf-8"))
        written.append([one["rung_index"] for one in record["trials"]] if name == "trial_ended" else [])

    launches.heard.hears = look
    fit = launches.fit()
    assert written == [[0], [0, 1], [], []] and launches.heard.names == ["trial_ended", "trial_ended", "fitted", "finished"]
    assert json.loads(fit.job.folder.record.read_text(encoding="utf-8")) == fit.as_record()
