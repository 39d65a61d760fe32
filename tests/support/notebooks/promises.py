"""Define what each notebook promises, and check that it keeps its promises."""

import subprocess
from pathlib import Path

import nbformat

from tests.support.notebooks.kernel import NOTEBOOKS, Kernel
from tests.support.places import ROOT

# make test-long runs these: two kill many processes, and three use commands that other tests run
LATER = ("02_follow_one_record", "03_replay_is_a_noop", "04_delivery_semantics", "05_quality", "06_stream_health")
EVERY = sorted(NOTEBOOKS.glob("*.ipynb"))
# what must hold after the last cell, in terms of the notebook's own variables
PROMISES = {
    "01_explore_errors": {
        "the dates limit what is counted": "within(lake.table('gold.error_log'), minute, None).count() < minutes"
        " and within(lake.table('gold.error_log'), None, None).count() == minutes",
        "gold counts the minute's errors as silver has them": "in_minute.count() == at_peak > 20",
        "the peak's raw lines are found in bronze": "len(lines) == at_peak and lines['batch of bronze'].notna().all()",
        "every broken rule is shown": "set(refused['rule']) == {'blank', 'pattern', 'time', 'level', 'time_range'}",
        "no line is lost between the layers": "in_bronze == in_silver + in_quarantine > 20_000",
    },
    "02_follow_one_record": {
        "the record is in each table once": "len(in_bronze) == row.count() == 1",
        "each table's commit covers it": "OFFSET in offsets_of(bronze_commit, 1)"
        " and bronze_commit['version'] in versions_of(silver_commit)"
        " and silver_commit['version'] in versions_of(gold_commit)",
        "a commit's transaction is its batch": "all(each['txn']['version'] == each['batch_id']"
        " for each in (*of_bronze, *of_silver, *of_gold))",
        "its count is what plain Python counts": "in_gold['log_count'] == by_python > 5",
        "trace finds a record, a late one and a broken one": "way.holds and late_way.holds and broken_way.holds",
        "the broken one has its reason": "[each['rule'] for each in broken_way.steps[1].row['reasons']] == ['time']",
        "the proof holds": "len(links) > 10 and all(link.holds for link in links)",
    },
    "03_replay_is_a_noop": {
        "a second run changes nothing": "after_second == after_first",
        "a replay changes nothing": "replayed == after_second and [each.replayed for each in replay] == [True]",
        "four processes were killed": "len(told) == len(moments) + 1 == 5",
        "a killed batch is found in its table": "len(found) >= 1",
        "gold is what plain Python counts": "gold == answer.errors and gold.total() > 100",
        "a lost checkpoint is refused": "refused.code == 1 and 'checkpoint lost' in refused.text",
        "recovered, nothing is counted again": "in_gold() == answer.errors",
        "the proof holds": "len(links) > 10 and all(link.holds for link in links)",
    },
    "04_delivery_semantics": {
        "offsets first lose lines and double none": "results['at_most_once']['lost'] > 0"
        " and results['at_most_once']['doubled'] == 0",
        "offsets last double lines and lose none": "results['at_least_once']['lost'] == 0"
        " and results['at_least_once']['doubled'] > 0",
        "a copy of the input loses none and doubles some": "results['write_ahead_log']['lost'] == 0"
        " and results['write_ahead_log']['doubled'] > 0",
        "a copy of the input is larger than the input": "results['write_ahead_log']['extra_bytes'] > sent",
        "exactly once neither loses nor doubles": "[results[each][what] for what in ('lost', 'doubled', 'surplus_rows')"
        " for each in ('direct_offsets', 'one_transaction', 'oncelake')] == [0] * 9",
        "batches came back and were dropped": "results['direct_offsets']['skipped'] > 0",
        "each was killed alike": "[each['kills'] for each in results.values()] == [8] * 5 + [3]",
        "gold is what plain Python counts": "in_gold == errors and errors.total() > 500",
        "the proof holds": "len(links) > 10 and all(link.holds for link in links)",
    },
    "05_quality": {
        "each kind of line is in quarantine": "len(refused) >= 7 and refused['lines'].min() > 0",
        "the audit agrees with the split": "by_audit['slow_request'] == slow > 0",
        "a replay moves each line once": "moved == refused['lines']['known_message'] > 0",
        "gold counts what silver has": "end['gold.log_volume, counted'] == end['silver.access_log']",
        "the gate holds a batch back": "'quality.gate.quarantined.fail' in held_back",
        "the proof holds": "len(links) > 10 and all(link.holds for link in links)",
    },
    "06_stream_health": {
        "the record has every row": "whole and written == taken + waiting > 20_000",
        "every stage has several batches": "batches.groupby('stage').size().min() >= 4",
        "every batch's freshness is known": "batches['freshness'].notna().all()",
        "nothing waits at the end": "all(each.count == 0 for each in waits.values())",
    },
}


def changed() -> str:
    """Return the files that git reports as changed, with untracked ones."""
    places = ("notebooks", "pipelines", "conf", "docs", "data")
    return subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all", "--", *places],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout


def check(path: Path, kernel: Kernel) -> None:
    """Run a notebook and assert that it keeps its promises and changes no file."""
    before = changed()
    kept = kernel.run(nbformat.read(path, as_version=4), PROMISES.get(path.stem, {}))
    assert [promise for promise, holds in kept.items() if not holds] == []
    assert changed() == before
