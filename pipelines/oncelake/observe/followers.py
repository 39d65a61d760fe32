"""Name those who follow a run beside what it shows: its metrics, and the consumer group of its topic."""

from oncelake.engine.runner import Follower
from oncelake.observe.group import publishing
from oncelake.observe.measure import measured

FOLLOWERS: tuple[Follower, ...] = (measured, publishing)
