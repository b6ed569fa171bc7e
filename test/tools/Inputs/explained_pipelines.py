# Checks what `cleave explain --json` says of pipelines, from its own figures.
import json
import sys

for plan in json.load(sys.stdin):
    stages = plan["stages"]
    train = plan["programs"][0]
    for stage in stages:
        parts = [stage[k] for k in ("params", "optimizer", "arena", "slots")]
        assert stage["peak"] == sum(parts), stage
    assert train["peak"] == max(stage["peak"] for stage in stages)
    if "pipeline" not in plan:
        assert len(stages) == 1
        print(f"{plan['plan']}: no stages")
        continue
    pipeline = plan["pipeline"]
    assert len(stages) == pipeline["stages"]
    rates = pipeline["rates"]

    # A section takes the longer of computing and reading; then it sends.
    def seconds(work):
        return (max(work["flops"] / rates["flops"], work["bytes"] / rates["bytes"])
                + work["sent"] / rates["link_bytes"])

    layers = [0] * pipeline["stages"]
    work = [0.0] * pipeline["stages"]
    for position in pipeline["positions"]:
        count = sum(end - begin for begin, end in position["layers"].values())
        layers[position["stage"]] += count
        for kind in ("forward", "input_gradient", "weight_gradient"):
            assert abs(seconds(position[kind]) - position[kind + "_seconds"]) < 1e-12
            work[position["stage"]] += position[kind + "_seconds"]
        assert (position["forward"]["flops"] > 0) >= (count > 0)
    timeline = pipeline["timeline"]
    spans = []
    for stage, total in zip(timeline["stages"], work):
        assert abs(stage["work"] - pipeline["microbatches"] * total) < 1e-12
        spans.append(stage["finish"] - stage["start"])
        actions = stage["actions"]
        assert all(a["finish"] <= b["start"] for a, b in zip(actions, actions[1:]))
    assert timeline["longest_span"] == max(spans)
    longest = timeline["stages"][spans.index(max(spans))]
    assert abs(timeline["bubble"] - (1 - longest["work"] / max(spans))) < 1e-9
    assert timeline["makespan"] == max(s["finish"] for s in timeline["stages"])
    sends = [c for c in train["collectives"] if c["kind"] == "send"]
    crossed = sum(b["activations"] + b["gradients"] for b in pipeline["boundaries"])
    assert crossed == sum(c["bytes_step"] for c in sends)
    held = " ".join(f"{h:g}" for h in pipeline["held"])
    print(f"{plan['plan']}: {pipeline['schedule']}, {pipeline['stages']} stages, "
          f"{pipeline['microbatches']} microbatches, "
          f"layers {' '.join(map(str, layers))}, held {held}")
