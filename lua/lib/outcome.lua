-- outcome: how a run ends: the one place where results, failures, retries and reclaims are decided.
-- Used by `finish` (the run says so), `sweep` (its owner is dead, or it is past a bound) and `abort`.

local end_completed, end_failed, again_after, end_with_failure, release, end_unknown, end_stopped

do
local UNKNOWN_NAME_MS = 300000
-- Bounds by what becomes of a task that they end for good. Those that are final are not tried again.
local ENDS_AS = { run_timeout = 'timed_out', phase_timeout = 'timed_out', stalled = 'timed_out', deadline = 'timed_out',
  budget_exceeded = 'failed' }
local FINAL = { deadline = true, budget_exceeded = true }

function end_completed(id, rec, output)
  rec.fk = nil
  set_output(id, rec, output)
  end_as(id, rec, 'completed', '')
end

local function end_aborted(id, rec, failure)
  if failure then
    failure.kind = 'abort'
    note_failure(id, rec, failure)
    rec.fk = nil
  end
  end_as(id, rec, 'aborted', rec.sp and rec.sp.c or 'drain')
end

-- Ends a run for good. `timed_out` for a bound of time that passed, else `failed`.
function end_failed(id, rec, failure)
  note_failure(id, rec, failure)
  end_as(id, rec, ENDS_AS[failure.kind] or 'failed', failure.kind)
end

-- The next attempt after `delay` ms, then at its own level; at `level` if at once. There is none for a task past its
-- deadline: its row may lie behind the hard end of the run that ends here.
function again_after(id, rec, delay, level, why)
  if rec.dl and now >= rec.dl then
    return end_failed(id, rec, { kind = 'deadline', message = 'the deadline passed before the next attempt' })
  end
  rec.sp = nil
  if why ~= 'unknown_name' then
    rec.un = nil
  end
  leave_run(id, rec, why, function()
    if delay > 0 then
      place_scheduled(id, rec, now + delay)
    else
      place_ready(id, rec, level)
    end
  end)
end

-- A failure of the handler or of a bound: spends one of max_attempts.
function end_with_failure(id, rec, failure)
  rec.f = rec.f + 1
  if failure.fatal or rec.f >= policy_of(rec)[1] then
    return end_failed(id, rec, failure)
  end
  note_failure(id, rec, failure)
  again_after(id, rec, failure.delay or backoff(id, rec), rec.lv, failure.kind)
  if not TERMINAL[rec.st] then
    count('retried')
  end
end

-- Handed back by a stopping worker, at the front and at no cost. What must not start twice ends here.
function release(id, rec)
  if policy_of(rec)[6] == 0 then
    return end_aborted(id, rec, { kind = 'error', message = 'its worker stopped, and it must not be started twice' })
  end
  count('released')
  again_after(id, rec, 0, 'again', 'release')
end

-- A name that this worker does not know (a rolling deploy): handed back with growing delay at no cost.
function end_unknown(id, rec, name)
  rec.un = rec.un or now
  if now - rec.un >= UNKNOWN_NAME_MS then
    return end_failed(id, rec, { kind = 'rejected', message = 'no worker knows the task name ' .. name })
  end
  local delay = math.max(1000, math.min(30000, now - rec.un))
  again_after(id, rec, delay, rec.lv, 'unknown_name')
end

-- The run was stopped: it says so, or nobody waits for it any longer. Where nobody can tell whether it has really
-- ended, a task that must not be started twice is not.
function end_stopped(id, rec, failure)
  local cause = rec.sp and rec.sp.c or failure.cause
  if rec.st == 'aborting' or cause == 'abort' then
    return end_aborted(id, rec, failure.message and failure or nil)
  end
  if ENDS_AS[cause] then
    failure.kind = cause
    failure.fatal = FINAL[cause] or (not said_by_run and policy_of(rec)[6] == 0)
    return end_with_failure(id, rec, failure)
  end
  return release(id, rec)
end
end
