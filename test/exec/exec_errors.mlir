// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{'exec.set' op starts with plan `q`, which it does not hold}}
exec.set "toy" starts @q {
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  // expected-error@+1 {{'exec.kernels' op is there twice}}
  exec.kernels ["m"]
  exec.plan @p mesh <[], []> {
  }
}

// -----

exec.set "toy" starts @p {
  // expected-error@+1 {{'exec.kernels' op names `k` twice}}
  exec.kernels ["k", "k"]
  exec.plan @p mesh <[], []> {
  }
}

// -----

exec.set "toy" starts @p {
  %a = exec.leaf "w" : f32[] init constant(0.0, 0.0)
  // expected-error@+1 {{'exec.leaf' op `w` is there twice}}
  %b = exec.leaf "w" : f32[] init constant(0.0, 0.0)
  exec.plan @p mesh <[], []> {
    exec.layout %a []
    exec.layout %b []
  }
}

// -----

exec.set "toy" starts @p {
  // expected-error@+1 {{'exec.leaf' op holds f32, i32 or i1, not 'f64'}}
  %a = exec.leaf "w" : f64[] init constant(0.0, 0.0)
}

// -----

exec.set "toy" starts @p {
  // expected-error@+1 {{for attribute 'init' [constant, normal, uniform]}}
  %a = exec.leaf "w" : f32[] init random(0.0, 0.0)
}

// -----

exec.set "toy" starts @p {
  // expected-error@+1 {{'func.func' op has no table in a plan file}}
  func.func private @f()
  exec.plan @p mesh <[], []> {
  }
}

// -----

// expected-error@+1 {{'exec.kernels' op expects parent op 'exec.set'}}
exec.kernels ["k"]

// -----

exec.set "toy" starts @p {
  // expected-note@+1 {{see existing symbol definition here}}
  exec.plan @p mesh <[], []> {
  }
  // expected-error@+1 {{redefinition of symbol named 'p'}}
  exec.plan @p mesh <[], []> {
  }
}

// -----

exec.set "toy" starts @p {
  %w = exec.leaf "w" : f32[a = 4] init constant(0.0, 0.0)
  // expected-error@+1 {{'exec.plan' op has no layout for leaf `w`}}
  exec.plan @p mesh <[data = 2], []> {
  }
}

// -----

exec.set "toy" starts @p {
  %w = exec.leaf "w" : f32[a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole]
    // expected-error@+1 {{'exec.layout' op is not of the leaf that is next in the set}}
    exec.layout %w [whole]
  }
}

// -----

exec.set "toy" starts @p {
  %w = exec.leaf "w" : f32[a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    // expected-error@+1 {{'exec.layout' op splits 2 dims, and the leaf has 1}}
    exec.layout %w [whole, whole]
  }
}

// -----

exec.set "toy" starts @p {
  %w = exec.leaf "w" : f32[a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    // expected-error@+1 {{'exec.layout' op names atom 1, and the mesh has 1}}
    exec.layout %w [<[1]>]
  }
}

// -----

exec.set "toy" starts @p {
  %w = exec.leaf "w" : f32[a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    // expected-error@+1 {{'exec.layout' op names atom 0 twice}}
    exec.layout %w [<[0]>] residing [0, 0, 1]
  }
}

// -----

exec.set "toy" starts @p {
  %w = exec.leaf "w" : f32[a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    // expected-error@+1 {{'exec.layout' op resides on triples of atom, begin and end}}
    exec.layout %w [whole] residing [0, 0]
  }
}

// -----

exec.set "toy" starts @p {
  %w = exec.leaf "w" : f32[a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    // expected-error@+1 {{'exec.extent' op names atom 2, and the mesh has 1}}
    %a = exec.extent "a" = 4 on <[2]>
  }
}

// -----

exec.set "toy" starts @p {
  %w = exec.leaf "w" : f32[a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    // expected-error@+1 {{'exec.extent' op has size -1, which is out of range}}
    %a = exec.extent "a" = -1
  }
}

// -----

exec.set "toy" starts @p {
  %w = exec.leaf "w" : f32[a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    // expected-error@+1 {{'exec.site' op has line -1, which is out of range}}
    %a = exec.site "a" at "f":-1
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.value' op is at 32, no multiple of 64}}
      %v = exec.value arena 32 bytes 4 : f32[]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.value' op ends outside the arena of 256 bytes}}
      %v = exec.value arena 192 bytes 65 : f32[]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.value' op must lie in one of the arena, a leaf, an input and slots}}
      %v = exec.value bytes 4 : f32[]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.value' op must lie in one of the arena, a leaf, an input and slots}}
      %v = exec.value arena 0 leaf %w bytes 4 : f32[%l, %a]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.value' op is of 'i32' and stands for 'f32'}}
      %v = exec.value leaf %w bytes 0 : i32[%l, %a]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.value' op has 1 extents and stands for rank 2}}
      %v = exec.value leaf %w bytes 0 : f32[%a]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.value' op has an extent of 5 where it stands for 4}}
      %v = exec.value leaf %w bytes 0 : f32[%l, %b]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{use of undeclared SSA value name}}
      %v = exec.value leaf %nothing bytes 0 : f32[]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.kernel' op calls `m`, which `exec.kernels` does not name}}
      exec.kernel @m(%x) with []
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.kernel' op has an integer of unknown kind 9}}
      "exec.kernel"() {kernel = @k, kinds = array<i32: 9>, literals = array<i64>, operandSegmentSizes = array<i32: 0, 0, 0>} : () -> ()
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.kernel' op has more integers than sources of integers}}
      "exec.kernel"() {kernel = @k, kinds = array<i32: 1>, literals = array<i64>, operandSegmentSizes = array<i32: 0, 0, 0>} : () -> ()
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.kernel' op has fewer integers than sources of integers}}
      "exec.kernel"() {kernel = @k, kinds = array<i32>, literals = array<i64: 1>, operandSegmentSizes = array<i32: 0, 0, 0>} : () -> ()
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.kernel' op has an integer whose source is of another kind}}
      "exec.kernel"(%a) {kernel = @k, kinds = array<i32: 3>, literals = array<i64>, operandSegmentSizes = array<i32: 0, 1, 0>} : (!exec.extent) -> ()
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      exec.loop %i from 0 count 3 {
        exec.fill %x
      }
      // expected-error@+1 {{use of undeclared SSA value name}}
      exec.fill %leaf[%i]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      exec.loop %i from 0 count 3 {
        // expected-error@+1 {{'exec.fill' op slices a scalar}}
        exec.fill %s[%i]
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      exec.loop %i from 0 count 3 {
        // expected-error@+1 {{'exec.fill' op has an iteration that slices nothing}}
        "exec.fill"(%i) : (!exec.iteration) -> ()
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.fill' op has 2 views instead of 1}}
      exec.fill %x, %y
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.fill' op refers to what is not declared before it}}
      exec.fill %late
      %late = exec.value arena 0 bytes 16 : f32[%a]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.move' op has a source of rank 2 and a target of rank 1}}
      exec.move %leaf -> %x by [0]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.move' op has a source and a target of different types}}
      exec.move %n -> %x by [0]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.move' op has 2 distances for rank 1}}
      exec.move %x -> %y by [0, 1]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.contract' op contracts f32 or bf16 to f32, not 'i32'}}
      exec.contract %n, %x -> %s with [%a(0, 0, _)]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  exec.plan @p mesh <[data = 2], []> {
    %a = exec.extent "a" = 4
    exec.program @train arena 256 {
      %x = exec.value arena 0 bytes 8 : bf16[%a]
      %y = exec.value arena 64 bytes 16 : f32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.contract' op contracts f32 or bf16 to f32, not 'f32'}}
      exec.contract %x, %y -> %s with [%a(0, 0, _)]
    }
  }
}

// -----

exec.set "toy" starts @p {
  // expected-error@+1 {{'exec.leaf' op holds f32, i32 or i1, not 'bf16'}}
  %w = exec.leaf "w" : bf16[a = 4] init constant(0.0, 0.0)
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.contract' op has a dim at position 1 of view 0, which has rank 1}}
      exec.contract %x, %x -> %s with [%a(1, 0, _)]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.contract' op has a dim of 5 where view 0 has 4}}
      exec.contract %x, %x -> %s with [%b(0, 0, _)]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.contract' op does not name every dim of view 1}}
      exec.contract %x, %x -> %s with [%a(0, _, _)]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.contract' op needs three positions for each dim}}
      "exec.contract"(%x, %x, %s, %a) {positions = array<i32: 0>, operandSegmentSizes = array<i32: 3, 1, 0>} : (!exec.buffer, !exec.buffer, !exec.buffer, !exec.extent) -> ()
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.start' op is never waited for}}
      %c = exec.start 0 all_gather %x -> %x among [0]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.start' op is waited for more than once}}
      %c = exec.start 0 all_gather %x -> %x among [0]
      exec.wait %c
      exec.wait %c
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.start' op must be waited for in the block that starts it}}
      %c = exec.start 0 all_gather %x -> %x among [0]
      exec.loop %i from 0 count 3 {
        exec.wait %c
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      %c = exec.start 0 all_gather %x -> %x among [0]
      // expected-error@+1 {{'exec.start' op has the number of another collective}}
      %d = exec.start 0 all_gather %x -> %x among [0]
      exec.wait %c
      exec.wait %d
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.start' op names atom 1, and the mesh has 1}}
      %c = exec.start 0 all_gather %x -> %x among [1]
      exec.wait %c
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.start' op reduces over atom 0, which is not in its group}}
      %c = exec.start 0 all_reduce %x -> %x among [], sum over [0]
      exec.wait %c
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.start' op has a source of size 4 and a target of size 5}}
      %c = exec.start 0 all_gather %x -> %y among [0]
      exec.wait %c
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{expected `sum`, `max` or `min`}}
      %c = exec.start 0 all_reduce %x -> %x among [0], mean over [0]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.loop' op has count -1, which is out of range}}
      exec.loop %i from 0 count -1 {
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.loop' op needs a body with its iteration as argument}}
      "exec.loop"() ({
      ^bb0:
      }) {first = 0, count = 1} : () -> ()
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.output' op is of rank 1 and its value of rank 0}}
      exec.output output "o" = %s : [a = 4]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.output' op has size 5 where its value has 4}}
      exec.output output "o" = %x : [a = 5]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      // expected-error@+1 {{'exec.output' op must be an f32 scalar}}
      exec.output loss "o" = %x : [a = 4]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    %b = exec.extent "b" = 5
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 0 : f32[%l, %a]
      %x = exec.value arena 0 bytes 16 : f32[%a]
      %y = exec.value arena 64 bytes 20 : f32[%b]
      %n = exec.value arena 128 bytes 16 : i32[%a]
      %s = exec.value arena 192 bytes 4 : f32[]
      exec.output loss "o" = %s : []
      // expected-error@+1 {{'exec.fill' op stands after an output: those come last}}
      exec.fill %x
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 48 : f32[%l, %a]
      %x = exec.value arena 0 bytes 48 : f32[%l, %a]
      // expected-error@+1 {{'exec.start' op has 1 distances for rank 2}}
      %c = exec.start 0 shift %leaf -> %x by [1] among [0]
      exec.wait %c
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 48 : f32[%l, %a]
      %x = exec.value arena 0 bytes 48 : f32[%l, %a]
      // expected-error@+1 {{'exec.start' op moves by 4 around 4}}
      %c = exec.start 0 shift %leaf -> %x by [0, 4] among [0]
      exec.wait %c
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 48 : f32[%l, %a]
      %x = exec.value arena 0 bytes 48 : f32[%l, %a]
      // expected-error@+1 {{'exec.start' op moves by -1 around 3}}
      %c = exec.start 0 shift %leaf -> %x by [-1, 0] among [0]
      exec.wait %c
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.kernels ["k"]
  %w = exec.leaf "w" : f32[l = 3, a = 4] init constant(0.0, 0.0)
  exec.plan @p mesh <[data = 2], []> {
    exec.layout %w [whole, <[0]>]
    %l = exec.extent "l" = 3
    %a = exec.extent "a" = 4
    exec.program @train arena 256 {
      %leaf = exec.value leaf %w bytes 48 : f32[%l, %a]
      %x = exec.value arena 0 bytes 48 : f32[%l, %a]
      // expected-error@+1 {{'exec.start' op moves more than one dim around}}
      %c = exec.start 0 shift %leaf -> %x by [1, 1] among [0]
      exec.wait %c
    }
  }
}
