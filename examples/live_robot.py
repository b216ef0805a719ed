"""A robot that logs at several rates, is asked while it runs, and is looked at again afterwards.

Three threads log for half a second: joints at 200 Hz, a battery at 10 Hz, a camera that sees a
varying number of objects at 30 Hz. A fourth asks for the state all the while. Then the recording is
saved as symbols of a store, opened again, and resampled by the query pipeline.
"""

import math
import threading
import time

import pyarrow.compute as pc

import tessel as ts
from tessel.store.events import LiveStore, Recorder, join_instances

SECONDS = 0.5


def joints(recorder: Recorder) -> None:
    for frame in range(int(200 * SECONDS)):
        recorder.log("robot/arm", {"angle": math.sin(frame / 30), "speed": 0.5}, frame=frame)
        time.sleep(1 / 200)


def battery(recorder: Recorder) -> None:
    for sample in range(int(10 * SECONDS)):
        recorder.log("robot/battery", {"charge": 1 - sample / 100}, frame=20 * sample)
        time.sleep(1 / 10)


def camera(recorder: Recorder) -> None:
    for image in range(int(30 * SECONDS)):
        seen = [float(number) for number in range(image % 4 + 1)]
        # One color for all objects that are seen, a distance for each.
        recorder.log("robot/camera", {"distance": seen, "color": "red"}, frame=7 * image)
        time.sleep(1 / 30)


def watch(live: LiveStore, done: threading.Event) -> None:
    """Ask until the robot stops; what is asked never waits for what is logged."""
    asked, newest = 0, -1
    while not done.wait(0.005):
        if "robot/arm" in live.entities():
            state = live.latest_at("frame", 2**40, "robot/arm")
            assert state["angle"].event_id == state["speed"].event_id  # never half an event
            assert state["angle"].time is not None
            assert state["angle"].time >= newest
            asked, newest = asked + 1, state["angle"].time
    print("asked while it ran:", "several times" if asked > 3 else asked)


if __name__ == "__main__":
    live = LiveStore()
    done = threading.Event()
    watching = threading.Thread(target=watch, args=(live, done))
    watching.start()
    with Recorder(live, max_delay_seconds=0.02) as recorder:
        recorder.log("robot", {"name": "R2"}, timeless=True)
        logging = [threading.Thread(target=f, args=(recorder,)) for f in (joints, battery, camera)]
        for thread in logging:
            thread.start()
        for thread in logging:
            thread.join()
    done.set()
    watching.join()
    print(live)

    # What the camera saw at frame 50, an object a row: the one color stands for all.
    print(join_instances(live.latest_at("frame", 50, "robot/camera"), "distance").to_pylist())

    store = ts.open("memory://robot")
    live.save(store, "run")
    again = LiveStore.open(store, "run")
    assert len(again) == len(live)
    assert again.latest_at("frame", 50, "robot/arm") == live.latest_at("frame", 50, "robot/arm")

    # A saved recording is symbols as any other, on the time of logging.
    query = ts.QueryBuilder().resample("100ms").agg(angle=("angle", "mean"), n="size")
    arms = store.read("run/robot/arm", query=query).to_arrow()
    print(f"{store.symbols()}: {pc.sum(arms['n'])} samples of the arm resampled")
    assert pc.sum(arms["n"]).as_py() == 200 * SECONDS

    # By frame instead, every signal beside the others, each as it was at that frame.
    frames = range(0, 100, 25)
    for entity, component in (("robot/arm", "angle"), ("robot/battery", "charge")):
        states = again.latest_at_many("frame", list(frames), entity, component)
        print(component, [round(value, 2) for (value,) in states.column(component).to_pylist()])
