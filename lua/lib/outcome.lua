-- outcome: how a run ends: the one place where results, failures, retries and reclaims are decided.
-- Used by `finish` (the run says so), `sweep` (its owner is dead, or it is past a bound) and `abort`.

local ERRORS_KEPT, ERROR_BYTES, DETAIL_BYTES = 25, 4096, 1024
local UNKNOWN_NAME_MS = 300000

-- False in `sweep` and `abort`, which end runs that cannot say so: these are told `lost` if they come back.
local said_by_run = true

-- Ends a run by `place`, which puts the task in its next state. What the run leaves behind, for repeats of its finish
-- and heartbeat, is its name in the head of a task that ended by its own word, else `le`.
local function leave_run(id, rec, why, place)
  local from, attempt, run, inc = rec.st, rec.n, rec.run, rec.inc
  place()
  rec.ml = nil
  rec.le = not (said_by_run and TERMINAL[rec.st]) and { run, inc, said_by_run and rec.st or 'lost' } or nil
  unindex('running', id)
  delete_key('lease:' .. id)
  event(id, from, rec.st, attempt, why)
  settle(id, rec)
end

local function note_failure(id, rec, failure)
  local entry = cmsgpack.pack({ k = failure.kind, m = string.sub(failure.message or '', 1, ERROR_BYTES), n = rec.n,
    w = rec.w ~= '' and rec.w or nil, at = now,
    x = failure.detail and #failure.detail <= DETAIL_BYTES and failure.detail or nil })
  local errors = Q .. 'errors:' .. id
  local found = call('TYPE', errors).ok
  if found ~= 'list' and found ~= 'none' then
    call('DEL', errors)
  end
  call('RPUSH', errors, entry)
  call('LTRIM', errors, -ERRORS_KEPT, -1)
  rec.fk = failure.kind
end

local function end_as(id, rec, state, why)
  leave_run(id, rec, why, function() place_ended(id, rec, state) end)
end

local function end_completed(id, rec, output)
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

-- Ends a run for good. `timed_out` for a bound that passed, else `failed`.
local function end_failed(id, rec, failure)
  note_failure(id, rec, failure)
  end_as(id, rec, failure.kind == 'run_timeout' and 'timed_out' or 'failed', failure.kind)
end

-- The next attempt after `delay` ms, then at its own level; at `level` if at once.
local function again_after(id, rec, delay, level, why)
  rec.sp = nil
  if why ~= 'unknown_name' then
    rec.un = nil
  end
  leave_run(id, rec, why, function()
    if delay > 0 then
      place_scheduled(id, rec, now + delay)
    else
      place_queued(id, rec, level)
    end
  end)
end

-- A failure of the handler or of a bound: spends one of max_attempts.
local function end_with_failure(id, rec, failure)
  rec.f = rec.f + 1
  if failure.fatal or rec.f >= policy_of(rec)[1] then
    return end_failed(id, rec, failure)
  end
  note_failure(id, rec, failure)
  count('retried')
  again_after(id, rec, failure.delay or backoff(id, rec), rec.lv, failure.kind)
end

-- Handed back by a stopping worker, at the front and at no cost. What must not start twice ends here.
local function release(id, rec)
  if policy_of(rec)[6] == 0 then
    return end_aborted(id, rec, { kind = 'error', message = 'its worker stopped, and it must not be started twice' })
  end
  count('released')
  again_after(id, rec, 0, 'again', 'release')
end

-- A name that this worker does not know (a rolling deploy): handed back with growing delay at no cost.
local function end_unknown(id, rec, name)
  rec.un = rec.un or now
  if now - rec.un >= UNKNOWN_NAME_MS then
    return end_failed(id, rec, { kind = 'rejected', message = 'no worker knows the task name ' .. name })
  end
  local delay = math.max(1000, math.min(30000, now - rec.un))
  again_after(id, rec, delay, rec.lv, 'unknown_name')
end

-- The run was stopped: it says so, or nobody waits for it any longer. Where nobody can tell whether it has really
-- ended, a task that must not be started twice is not.
local function end_stopped(id, rec, failure)
  local cause = rec.sp and rec.sp.c or failure.cause
  if rec.st == 'aborting' or cause == 'abort' then
    return end_aborted(id, rec, failure.message and failure or nil)
  end
  if cause == 'run_timeout' then
    failure.kind = 'run_timeout'
    failure.fatal = not said_by_run and policy_of(rec)[6] == 0
    return end_with_failure(id, rec, failure)
  end
  return release(id, rec)
end
