"""Says what a profile's JSON holds, and that its numbers fit together."""
import json
import sys

for plan in json.load(open(sys.argv[1])):
    operations = plan["operations"]
    share = sum(operation["share"] for operation in operations)
    print(f"{plan['plan']}: {plan['steps']} steps of {plan['devices']} devices, "
          f"shares sum to at most 1: {0 < share <= 1 + 1e-9}")
    kinds = {operation["kind"] for operation in operations if ".clv:" in operation["source"]}
    print("with source lines:", *sorted(kinds))
    for operation in operations:
        assert len(operation["devices"]) == plan["devices"]
        mean = sum(operation["devices"]) / plan["devices"]
        assert abs(mean - operation["seconds"]) <= 1e-6 * mean, operation
        bound = max(operation["gflops"] / plan["bound"]["gflops"],
                    operation["gbytes"] / plan["bound"]["gbytes"])
        assert abs(bound - operation["of_bound"]) <= 1e-9 + 1e-6 * bound, operation
        assert (operation["gflops"] > 0) == (operation["kind"] == "contraction"
                                             or operation["name"] == "cleave_attention"), operation
