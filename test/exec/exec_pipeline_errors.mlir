// RUN: cleave-opt %s --split-input-file --verify-diagnostics

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      // expected-error@+1 {{'exec.slots' op is of no pipeline}}
      %s = exec.slots 64 at 0 to 1
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      // expected-error@+1 {{'exec.slots' op is at no position}}
      %s = exec.slots 64 at 1 to 1
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      // expected-error@+1 {{'exec.slots' op has bytes -1, which is out of range}}
      %s = exec.slots -1 at 0 to 1
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      %all = exec.slots 128 at 0 to 2
      // expected-error@+1 {{'exec.value' op is at 8, no multiple of 64}}
      %x = exec.value slots %all at 8 bytes 16 : f32[%a]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      %all = exec.slots 128 at 0 to 2
      // expected-error@+1 {{'exec.value' op ends outside its slot of 128 bytes}}
      %x = exec.value slots %all at 128 bytes 16 : f32[%a]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      %all = exec.slots 128 at 0 to 2
      // expected-error@+1 {{'exec.value' op must lie in one of the arena, a leaf, an input and slots}}
      %x = exec.value arena 0 slots %all at 0 bytes 16 : f32[%a]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      // expected-error@+1 {{'exec.value' op has a place in slots, and no other value has}}
      %x = "exec.value"(%a) <{bytes = 16, element = f32, offset = 0 : i64, place = 0 : i64, operandSegmentSizes = array<i32: 0, 0, 0, 1>}> : (!exec.extent) -> !exec.buffer
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      exec.pipeline among [0] micro [1] chunk [] plain {
      }
      // expected-error@+1 {{'exec.pipeline' op is there twice}}
      exec.pipeline among [0] micro [1] chunk [] plain {
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      // expected-error@+1 {{'exec.pipeline' op names atom 5, and the mesh has 2}}
      exec.pipeline among [5] micro [1] chunk [] plain {
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      // expected-error@+1 {{'exec.pipeline' op names atom 1, which is a time}}
      exec.pipeline among [1] micro [] chunk [] plain {
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      // expected-error@+1 {{'exec.pipeline' op names atom 0, which is no time}}
      exec.pipeline among [] micro [0] chunk [] plain {
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      // expected-error@+1 {{'exec.pipeline' op names atom 1 twice}}
      exec.pipeline among [0] micro [1] chunk [1] plain {
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      %all = exec.slots 128 at 0 to 2
      %x = exec.value slots %all at 0 bytes 16 : f32[%a]
      %y = exec.value slots %all at 64 bytes 16 : f32[%a]
      %z = exec.value arena 0 bytes 16 : f32[%a]
      exec.pipeline among [0] micro [1] chunk [] plain {
        // expected-error@+1 {{'exec.fill' op expects parent op to be one of 'exec.program, exec.loop, exec.only, exec.section'}}
        exec.fill %x
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      %all = exec.slots 128 at 0 to 2
      %x = exec.value slots %all at 0 bytes 16 : f32[%a]
      %y = exec.value slots %all at 64 bytes 16 : f32[%a]
      %z = exec.value arena 0 bytes 16 : f32[%a]
      exec.pipeline among [0] micro [1] chunk [] plain {
        // expected-error@+1 {{'exec.section' op is at no position}}
        exec.section forward 1 to 1 {
        }
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      %all = exec.slots 128 at 0 to 2
      %x = exec.value slots %all at 0 bytes 16 : f32[%a]
      %y = exec.value slots %all at 64 bytes 16 : f32[%a]
      %z = exec.value arena 0 bytes 16 : f32[%a]
      exec.pipeline among [0] micro [1] chunk [] plain {
        exec.section forward 0 to 1 {
          // expected-error@+1 {{'exec.value' op expects parent op 'exec.program'}}
          %v = exec.value arena 0 bytes 16 : f32[%a]
        }
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      %all = exec.slots 128 at 0 to 2
      %x = exec.value slots %all at 0 bytes 16 : f32[%a]
      %y = exec.value slots %all at 64 bytes 16 : f32[%a]
      %z = exec.value arena 0 bytes 16 : f32[%a]
      exec.pipeline among [0] micro [1] chunk [] plain {
        // expected-error@+1 {{'exec.message' op is between whole values in slots}}
        exec.message activation 0 to 1 %x -> %z
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      %all = exec.slots 128 at 0 to 2
      %x = exec.value slots %all at 0 bytes 16 : f32[%a]
      %y = exec.value slots %all at 64 bytes 16 : f32[%a]
      %z = exec.value arena 0 bytes 16 : f32[%a]
      %s = exec.value slots %all at 64 bytes 4 : f32[]
      exec.pipeline among [0] micro [1] chunk [] plain {
        // expected-error@+1 {{'exec.message' op has a source of rank 1 and a target of rank 0}}
        exec.message gradient 0 to 1 %x -> %s
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      %all = exec.slots 128 at 0 to 2
      %x = exec.value slots %all at 0 bytes 16 : f32[%a]
      %y = exec.value slots %all at 64 bytes 16 : f32[%a]
      %z = exec.value arena 0 bytes 16 : f32[%a]
      exec.pipeline among [0] micro [1] chunk [] plain {
        // expected-error@+1 {{enum values for attribute 'direction' [activation, gradient]}}
        exec.message sideways 0 to 1 %x -> %y
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      exec.pipeline among [0] micro [1] chunk [] plain {
        // expected-error@+1 {{expected a kind of step, not `forwards`}}
        exec.stream [forwards 0]
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      exec.pipeline among [0] micro [1] chunk [] plain {
        // expected-error@+1 {{'exec.stream' op has a chunk or microbatch that is out of range}}
        exec.stream [forward -1]
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      exec.pipeline among [0] micro [1] chunk [] plain {
        // expected-error@+1 {{'exec.stream' op has a chunk or microbatch that is out of range}}
        exec.stream [forward 0 in 70000]
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      exec.pipeline among [0] micro [1] chunk [] plain {
        // expected-error@+1 {{'exec.stream' op has three numbers for each step}}
        "exec.stream"() <{steps = array<i64: 1, 2>}> : () -> ()
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      exec.pipeline among [0] micro [1] chunk [] plain {
        // expected-error@+1 {{'exec.stream' op has a step of unknown kind 8}}
        "exec.stream"() <{steps = array<i64: 8, 0, 0>}> : () -> ()
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      // expected-error@+1 {{'exec.only' op resides on triples of atom, begin and end}}
      exec.only [] {
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      // expected-error@+1 {{'exec.only' op resides on triples of atom, begin and end}}
      exec.only [0, 1] {
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      // expected-error@+1 {{'exec.only' op names atom 7, and the mesh has 2}}
      exec.only [7, 0, 1] {
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      // expected-error@+1 {{'exec.only' op resides on an empty range}}
      exec.only [0, 1, 1] {
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      %z = exec.value arena 0 bytes 16 : f32[%a]
      exec.only [0, 0, 1] {
        // expected-error@+1 {{'exec.output' op expects parent op 'exec.program'}}
        exec.output output "x" = %z : [a = 4]
      }
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      %z = exec.value arena 0 bytes 16 : f32[%a]
      // expected-error@+1 {{'exec.output' op resides on an empty range}}
      exec.output output "z" = %z : [a = 4] residing [0, 2, 1]
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      %z = exec.value arena 0 bytes 16 : f32[%a]
      // expected-error@+1 {{'exec.start' op names atom 3, and the mesh has 2}}
      %c = exec.start 0 broadcast %z -> %z among [0] from [3, 0, 1]
      exec.wait %c
    }
  }
}

// -----

exec.set "toy" starts @p {
  exec.plan @p mesh <[pipe = 2, micro = 3], [] times 1> {
    %a = exec.extent "a" = 4
    exec.program @train arena 64 {
      // expected-error@+1 {{'exec.loop' op over an extent begins at 0}}
      "exec.loop"(%a) <{first = 1 : i64, count = 0 : i64}> ({
      ^bb0(%i: !exec.iteration):
      }) : (!exec.extent) -> ()
    }
  }
}
