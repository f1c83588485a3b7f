-- leave: how a run leaves its task, and how a task ends that no run owns.

-- False in `sweep` and `abort`, which end runs that cannot say so: these are told `lost` if they come back.
local said_by_run = true
local leave_run, end_as, end_unowned, end_late

do
-- Ends a run by `place`, which puts the task in its next state. What the run leaves behind, for repeats of its finish
-- and heartbeat, is its name in the head of a task that ended by its own word, else `le`.
function leave_run(id, rec, why, place)
  local from, attempt, run, inc = rec.st, rec.n, rec.run, rec.inc
  close_phase(id, rec)
  place()
  rec.ml, rec.sn, rec.uk = nil, nil, nil
  rec.le = not (said_by_run and TERMINAL[rec.st]) and { run, inc, said_by_run and rec.st or 'lost' } or nil
  unindex('running', id)
  delete_key('lease:' .. id)
  event(id, from, rec.st, attempt, why)
  settle(id, rec)
end

function end_as(id, rec, state, why)
  leave_run(id, rec, why, function() place_ended(id, rec, state) end)
end

-- Ends a task that no run owns.
function end_unowned(id, rec, state, why)
  local from = rec.st
  leave_place(id, rec)
  place_ended(id, rec, state)
  event(id, from, state, rec.n, why)
  settle(id, rec)
end

-- Its absolute deadline has passed before a run began, or between two.
function end_late(id, rec)
  note_failure(id, rec, { kind = 'deadline', message = 'the deadline passed while the task was ' .. rec.st })
  end_unowned(id, rec, 'timed_out', 'deadline')
end
end
