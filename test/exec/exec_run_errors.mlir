// RUN: cleave-opt %s --split-input-file --verify-diagnostics

exec.set "toy" starts @p {
  exec.run "r" snapshots every 300 batches [0, 2, 10, 4]
  exec.rule ["Loss", 2.0, "Greater"] for 1 apart 0 -> "Go" plan "p" said "when" at "a.clv":3
  exec.plan @p mesh <[], []> of "q" batch 4 micros 2 sends [["AllReduce", "data", 12]] {
  }
}

// -----

exec.set "toy" starts @p {
  exec.run "r"
  // expected-error@+1 {{'exec.run' op is there twice}}
  exec.run "s"
  exec.plan @p mesh <[], []> {
  }
}

// -----

exec.set "toy" starts @p {
  // expected-error@+1 {{'exec.rule' op is a rule of no run}}
  exec.rule ["Not"] for 1 apart 0 -> "Stop" said "when" at "a.clv":3
  exec.plan @p mesh <[], []> {
  }
}

// -----

exec.set "toy" starts @p {
  // expected-error@+1 {{'exec.run' op has batches that are no pairs}}
  exec.run "r" batches [0, 2, 10]
  exec.plan @p mesh <[], []> {
  }
}

// -----

exec.set "toy" starts @p {
  // expected-error@+1 {{'exec.run' op makes snapshots every 4294967296 steps}}
  exec.run "r" snapshots every 4294967296
  exec.plan @p mesh <[], []> {
  }
}

// -----

exec.set "toy" starts @p {
  exec.run "r"
  // expected-error@+1 {{'exec.rule' op has a term that is none: ["Loss"]}}
  exec.rule [["Loss"]] for 1 apart 0 -> "Stop" said "when" at "a.clv":3
  exec.plan @p mesh <[], []> {
  }
}

// -----

exec.set "toy" starts @p {
  exec.run "r"
  // expected-error@+1 {{'exec.rule' op has a number that is too large}}
  exec.rule [1.0] for 4294967296 apart 0 -> "Stop" said "when" at "a.clv":3
  exec.plan @p mesh <[], []> {
  }
}

// -----

// expected-error@+1 {{'exec.set' op has other than two hashes of its mathematics}}
exec.set "toy" starts @p mathematics ["12", "x"] {
  exec.plan @p mesh <[], []> {
  }
}

// -----

exec.set "toy" starts @p {
  // expected-error@+1 {{'exec.plan' op sends what is none: ["AllReduce", 12]}}
  exec.plan @p mesh <[], []> sends [["AllReduce", 12]] {
  }
}
