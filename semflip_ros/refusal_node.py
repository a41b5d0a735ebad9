"""The refusal node: a lifecycle around memory, worker and sensing (DESIGN section 4)."""

from __future__ import annotations

import logging
import sys
import traceback
import uuid
from collections.abc import Callable
from contextlib import ExitStack

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, JumpThreshold, TimeJump
from rclpy.clock_type import ClockType
from rclpy.duration import Duration
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.lifecycle.node import LifecycleNodeMixin
from rclpy.node import Node
from std_srvs.srv import Trigger

from semflip_core.decision import Decision, Reason
from semflip_core.errors import SemflipError
from semflip_core.loading import load_agent
from semflip_core.memory import VideoMemory
from semflip_ros import parameters, process
from semflip_ros.deadlines import DeadlineWatch
from semflip_ros.node_health import NodeHealth
from semflip_ros.node_settings import NodeSettings, read_options
from semflip_ros.outlets import DecisionOutlets
from semflip_ros.queries import PendingQuery, QueryDesk
from semflip_ros.query_inputs import AskAction, QueryTopics
from semflip_ros.sensing import Sensing
from semflip_ros.worker import QueryWorker

logger = logging.getLogger("semflip")

#: Longest wait for the encoder's present step when the process ends; seconds.
LEAVING_S = 2.0
SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE


class RefusalNode(LifecycleNode):
    """Keeps a video memory, answers questions about it with a goal, or refuses.

    Raises:
        ConfigError: a parameter has an unknown name or a wrong value.
    """

    def __init__(self) -> None:
        # LifecycleNode's own __init__ has no callback_group; transitions get one of their own, so
        # that loading an encoder stops neither /clock nor questions.
        Node.__init__(self, "refusal_node", automatically_declare_parameters_from_overrides=True)
        LifecycleNodeMixin.__init__(self, callback_group=MutuallyExclusiveCallbackGroup())
        self.settings = parameters.declare(self, NodeSettings)
        self.map_id = self.settings.map_id or f"start-{uuid.uuid4()}"
        self._configured = ExitStack()
        self._active = ExitStack()
        self._locked = ""
        self._leaving = False
        self._worker: QueryWorker | None = None
        self._sensing: Sensing | None = None
        self.add_on_set_parameters_callback(
            lambda changes: parameters.check_change(self, NodeSettings, changes, self._locked)
        )

    # Transitions -------------------------------------------------------------------------------

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Parameters, memory, query inputs, publishers, services."""
        return self._transition("configure", self._configure, self._configured)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Encoder, gate, goals, camera and pose subscriptions."""

        def activate(undo: ExitStack) -> None:
            self._activate(undo)
            super(RefusalNode, self).on_activate(state)
            undo.callback(super(RefusalNode, self).on_deactivate, state)
            undo.callback(self._desk.close, "The refusal node was deactivated.")
            if self._worker is not None:
                self._desk.open(self._worker)

        return self._transition("activate", activate, self._active)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Refuse what waits, release encoder and subscriptions."""
        return self._transition("deactivate", lambda _: self._active.close(), ExitStack())

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close the memory and everything that was configured."""
        return self._transition("clean up", lambda _: self._configured.close(), ExitStack())

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """As deactivate and cleanup."""
        return self._transition("shut down", lambda _: self._release(), ExitStack())

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Release everything; the node is unconfigured again."""

        def recover(_: ExitStack) -> None:
            self._active.close()
            self._configured.close()

        return self._transition("recover", recover, ExitStack())

    def _release(self) -> None:
        self._leaving = True
        self._active.close()
        self._configured.close()

    def _transition(
        self, name: str, step: Callable[[ExitStack], None], kept: ExitStack
    ) -> TransitionCallbackReturn:
        """Run a transition; what it opened is kept on success and undone on failure.

        rclpy swallows what a transition raises, so every error is logged here.
        """
        with ExitStack() as guard:
            guard.push(_log_unexpected)
            undo = guard.enter_context(ExitStack())
            try:
                step(undo)
            except (SemflipError, OSError) as error:
                logger.error("cannot %s: %s", name, error)
                return FAILURE
            kept.push(undo.pop_all())
        return SUCCESS

    def _configure(self, undo: ExitStack) -> None:
        settings = self.settings = parameters.read(self, NodeSettings)
        if settings.map_id:
            self.map_id = settings.map_id
        path = settings.memory_file()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._memory = undo.enter_context(VideoMemory(path, settings.memory))
        self._outlets = DecisionOutlets(
            self, self._memory, global_frame=settings.global_frame, map_id=lambda: self.map_id
        )
        undo.callback(self._outlets.close)
        self._desk = QueryDesk(
            deadline_s=settings.query_deadline_s,
            repeat_window_s=settings.repeat_window_s,
            publish=self._outlets.publish,
            repeat=self._outlets.repeat,
        )
        watch = DeadlineWatch(
            self._desk,
            stuck_after_s=2.0 * settings.query_deadline_s,
            busy_since=lambda: self._worker.busy_since if self._worker else None,
            on_stuck=self._stuck,
        )
        watch.start()
        undo.callback(watch.stop)
        undo.callback(self._desk.close)
        group = MutuallyExclusiveCallbackGroup()
        undo.callback(QueryTopics(self, self._desk, group).close)
        action = AskAction(self, self._desk, group, global_frame=settings.global_frame)
        undo.callback(action.close)
        self._open_services(undo)
        self._health = NodeHealth(
            self,
            self._memory,
            self._desk,
            silence_s=settings.silence_warning_s,
            map_id=lambda: self.map_id,
        )
        undo.callback(self._health.close)
        self._open_timers(undo)
        self._locked = "parameters can be changed while the node is unconfigured"
        undo.callback(setattr, self, "_locked", "")
        logger.info("memory '%s' holds %d keyframes", path or "in RAM", len(self._memory))

    def _open_services(self, undo: ExitStack) -> None:
        group = MutuallyExclusiveCallbackGroup()
        for name, handler in (("clear", self._clear_memory), ("save", self._save_memory)):
            service = self.create_service(
                Trigger, f"~/{name}_memory", handler, callback_group=group
            )
            undo.callback(self.destroy_service, service)

    def _open_timers(self, undo: ExitStack) -> None:
        """By steady time, so that a stopped /clock stops neither health nor markers."""
        settings, group = self.settings, MutuallyExclusiveCallbackGroup()
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        for period, callback in (
            (settings.diagnostics_period_s, self._look_around),
            (settings.markers_period_s, lambda: self._outlets.draw_markers(self._desk.last)),
        ):
            timer = self.create_timer(period, callback, callback_group=group, clock=steady)
            undo.callback(self.destroy_timer, timer)
        jump = Duration(nanoseconds=-round(settings.keyframes.time_jump_s * 1e9))
        handle = self.get_clock().create_jump_callback(
            JumpThreshold(min_forward=None, min_backward=jump, on_clock_change=False),
            post_callback=self._clock_jumped,
        )
        undo.callback(handle.unregister)

    def _activate(self, undo: ExitStack) -> None:
        settings = self.settings
        worker = self._worker = QueryWorker(
            lambda: load_agent(
                self._memory,
                encoder=settings.encoder,
                encoder_options=read_options(settings.encoder_options),
                retriever=settings.retriever or None,
                retriever_options=read_options(settings.retriever_options),
                gate=settings.gate or None,
                threshold=None if settings.threshold < 0 else settings.threshold,
                recall=settings.recall,
                decision=settings.decision,
                global_frame=settings.global_frame,
                map_id=self.map_id,
            ),
            self._answered,
            capacity=settings.query_queue,
            on_crash=lambda: process.leave(process.CRASHED, self.last_words("the worker crashed")),
        )
        undo.callback(setattr, self, "_worker", None)
        # without a limit: a stuck step ends the process by itself, and two encoders never coexist
        undo.callback(lambda: worker.stop(LEAVING_S if self._leaving else None))
        worker.start()
        self._sensing = Sensing(
            self,
            self._memory,
            settings,
            map_id=self.map_id,
            on_keyframes=worker.keyframes_changed,
            on_time_jump=self._new_map,
        )
        undo.callback(setattr, self, "_sensing", None)
        undo.callback(self._sensing.close)
        self._health.watch(worker, self._sensing, undo)

    # What happens meanwhile --------------------------------------------------------------------

    def _look_around(self) -> None:
        if self._sensing is not None:
            self._sensing.expire()
        self._health.publish()

    def _answered(self, pending: PendingQuery, decision: Decision) -> bool:
        published = self._desk.settle(pending, decision)
        if published:
            self._outlets.illustrate(decision)
        return published

    def _clock_jumped(self, jump: TimeJump) -> None:
        why = f"the clock went back by {-jump.delta.nanoseconds / 1e9:.2f} s"
        map_id = self._new_map(why)
        if self._sensing is not None:
            self._sensing.set_map(map_id)

    def _new_map(self, why: str) -> str:
        """After a time jump: another map, unless it was declared common."""
        if self.settings.map_common_after_time_jump:
            logger.warning("%s; the map is declared common and stays", why)
            return self.map_id
        self.map_id = f"jump-{uuid.uuid4()}"
        if self._worker is not None:
            self._worker.set_map(self.map_id)
        self._desk.refuse_pending(Reason.NO_POSE, "Time jumped back while I was thinking.")
        logger.warning("%s: poses from before it give no goal any more", why)
        return self.map_id

    def _clear_memory(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        try:
            response.message = f"{self._memory.clear()} keyframes cleared"
            response.success = True
        except SemflipError as error:
            response.message = str(error)
        return response

    def _save_memory(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        try:
            self._memory.flush()
            response.message = f"{len(self._memory)} keyframes saved"
            response.success = True
        except SemflipError as error:
            response.message = str(error)
        return response

    def _stuck(self, seconds: float) -> None:
        message = f"the worker has been stuck for {seconds:.1f} s"
        process.leave(process.STUCK, self.last_words(message))

    def last_words(self, message: str) -> Callable[[], None]:
        """What is done before the process ends by itself: say so, keep the memory."""

        def say() -> None:
            logger.error("%s: leaving, so that it is started again", message)
            if self._locked:  # configured: there are questions and a memory to care for
                self._desk.refuse_pending(Reason.INTERNAL_ERROR)
                self._health.fail(message)
                self._memory.flush()

        return say


def _log_unexpected(kind: type[BaseException] | None, *_: object) -> bool:
    if kind is not None:
        logger.error("unexpected error in a transition:\n%s", traceback.format_exc())
    return False


def main() -> int:
    """Entry point of the executable ``refusal_node``."""
    return process.run(
        RefusalNode,
        autostart=lambda node: node.settings.autostart,
        last_words=RefusalNode.last_words,
    )


if __name__ == "__main__":
    sys.exit(main())
