"""The guards of alerts: one key, at least one message, and nothing about the past."""

from tests.guards.edits import always, answers, becomes, calls, reads, removed, unwrapped
from tests.guards.guard import Guard

_TESTS, _SENT = "unit/observe/alerts/test_alert.py::", "unit/observe/alerts/test_send.py::"

GUARDS = (
    Guard(
        "alert-key-from-window",
        "the key of an alert follows from the window and the condition alone",
        "a receiver that honours keys shows one spike several times",
        reads("(lake, alert, when, start)", "(lake, alert, when, start, repr(object()))"),
        tests=(f"{_TESTS}test_the_key_does_not_depend_on_when_or_how_often_it_is_looked_at",),
    ),
    Guard(
        "alert-kept-before-sent",
        "what is due is kept before it is sent",
        "a message that was sent before a kill comes again under another key",
        removed(),
        tests=(f"{_TESTS}test_what_is_due_is_kept_before_it_is_sent",),
    ),
    Guard(
        "clock-behind-refused-lines",
        "a clock that is set back does not end the look at refused lines",
        "no line that is refused is told of until the clock is where it was",
        unwrapped(),
        tests=(f"{_TESTS}test_a_clock_that_is_set_back_hides_no_refused_lines",),
    ),
    Guard(
        "unfinished-time-not-alone",
        "a time that is not over counts with the lines before it",
        "one refused line at the beginning of a time sends a message",
        becomes("part"),
        tests=(
            "unit/observe/alerts/test_look.py::"
            "test_a_few_refused_lines_at_the_beginning_of_a_time_alert_only_with_the_lines_before_them",
        ),
    ),
    Guard(
        "window-finished-by-clock",
        "a window counts as finished by today's clock",
        "a clock that was ahead makes each window that has just begun one with too few lines",
        unwrapped("min"),
        tests=(f"{_TESTS}test_a_window_is_not_too_low_before_it_is_over_after_a_clock_was_set_back",),
    ),
    Guard(
        "future-commit-not-fresh",
        "a commit later than the clock is not taken for a fresh one",
        "a stage that stands still is not told of until the clock is where it was",
        calls("abs", "max(now_ms - last.timestamp, 0)"),
        tests=("unit/observe/alerts/test_look.py::test_a_commit_later_than_the_clock_is_not_taken_for_a_fresh_one",),
    ),
    Guard(
        "alert-begins-not-later",
        "an alert does not begin in the future",
        "an alert that was first looked at while the clock was ahead tells nothing for years",
        unwrapped("min"),
        tests=(f"{_TESTS}test_an_alert_that_began_with_a_clock_that_was_ahead_sees_what_comes_after_it_is_right",),
    ),
    Guard(
        "alert-sent-then-recorded",
        "a message is recorded as sent after it is sent",
        "a kill between the two loses the message",
        becomes("(self._record(state.put(replace(entry, sent_ms=1))), self.send(self._message(entry, status, 0)))"),
        tests=(
            f"{_TESTS}test_a_message_is_recorded_as_sent_only_after_it_was_accepted",
            f"{_TESTS}test_a_kill_before_the_send_loses_no_message",
        ),
    ),
    Guard(
        "refused-message-not-sent",
        "a message that was refused is not recorded as sent",
        "a message is lost",
        removed(),
        tests=(f"{_TESTS}test_a_message_that_is_refused_does_not_hold_up_the_others",),
    ),
    Guard(
        "falling-window-is-over",
        "a share or an average alerts when its window is over",
        "the first line of each window alerts, if it is an error",
        becomes('"<" in self.settings.condition.operator'),
        tests=(f"{_TESTS}test_a_share_of_a_window_alerts_when_the_window_is_over",),
    ),
    Guard(
        "alert-position-when-kept",
        "the position of an alert moves when all of its windows are kept",
        "windows beyond the limit of a round are skipped",
        always(),
        tests=(f"{_TESTS}test_since_takes_earlier_windows_in_rounds_of_a_limited_number",),
    ),
    Guard(
        "one-message-per-window",
        "a window that had its message gets no other one",
        "a late line or a rebuild sends old alerts again",
        always(),
        tests=(
            f"{_TESTS}test_a_late_line_that_raises_an_old_window_past_the_limit_alerts_for_it",
            f"{_TESTS}test_a_table_that_is_built_again_alerts_nothing_again",
        ),
    ),
    Guard(
        "alert-ends-when-counted",
        "an alert ends when every line is counted",
        "a backlog hides a spike that goes on",
        always(),
        tests=(f"{_TESTS}test_an_end_message_follows_when_the_window_is_over_and_everything_is_counted",),
    ),
    Guard(
        "windows-before-first-look",
        "windows before the first look are left out",
        "the first start on a lake with a long past sends thousands of messages",
        reads("F.col(LOG_TIME) > F.timestamp_millis(F.lit(after_ms - length))", "F.lit(True)"),
        tests=("streaming/test_alerts.py::test_a_group_and_the_number_of_others_are_named",),
    ),
    Guard(
        "one-process-per-alert",
        "one process at a time works on an alert",
        "two processes overwrite each other's record of what is sent",
        becomes("__import__('contextlib').nullcontext()"),
        tests=(f"{_TESTS}test_another_process_on_the_same_alert_is_left_alone",),
    ),
    Guard(
        "unreadable-alert-state",
        "a state that cannot be read is no new beginning",
        "messages that were due are forgotten",
        removed(),
        tests=("unit/observe/alerts/test_state.py::test_a_state_that_cannot_be_read_is_an_error_and_no_new_beginning",),
    ),
    Guard(
        "redirect-is-no-success",
        "a redirect is no success",
        "a message that was dropped on the way counts as sent",
        answers("urllib.request.build_opener()"),
        tests=(f"{_SENT}test_an_answer_that_accepts_nothing_is_a_failure[302-it answers 302 Found-False-3]",),
    ),
)
