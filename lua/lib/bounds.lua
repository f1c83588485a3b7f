-- bounds: when a run has had its time, by which of its bounds, and when it has been silent for long.

-- The last sign of life of a run: its begin, its last output, progress, phase or checkpoint.
local passed_bound, note_silence, note_life, next_look, is_bounded

do
local function last_life(rec)
  return math.max(rec.la or 0, rec.bg)
end

-- When the run's first bound passes, ms, and which one; without one far in the future.
local function next_bound(rec)
  local at, cause = now + MOST_MS, nil
  local function consider(when, why)
    if when < at then
      at, cause = when, why
    end
  end
  local timeout = policy_of(rec)[7]
  if timeout > 0 then
    consider(rec.bg + timeout, 'run_timeout')
  end
  if rec.ph and rec.ph.tm > 0 and not rec.ph.e then
    consider(rec.ph.at + rec.ph.tm, 'phase_timeout')
  end
  if rec.sa then
    consider(last_life(rec) + rec.sa, 'stalled')
  end
  if rec.dl then
    consider(rec.dl, 'deadline')
  end
  return at, cause
end

-- The bound that has passed, with no stop recorded yet.
function passed_bound(rec)
  if rec.sp then
    return nil
  end
  local at, cause = next_bound(rec)
  return now >= at and cause or nil
end

-- When a silence is to be told of.
local function silence_at(rec)
  return rec.si and not rec.sn and last_life(rec) + rec.si or nil
end

-- Notes that the run has been silent for as long as it may be without a word, once. True if it did.
function note_silence(id, rec)
  local at = silence_at(rec)
  if not at or now < at then
    return false
  end
  rec.sn = last_life(rec)
  event(id, rec.st, rec.st, rec.n, 'silence')
  return true
end

-- A sign of life: the end of a silence that was told of.
function note_life(id, rec)
  if rec.sn then
    rec.sn = nil
    event(id, rec.st, rec.st, rec.n, 'silence over')
  end
  rec.la = now
end

-- Until when nothing of a run can become due: its hard end, its next bound or the notice of its silence.
function next_look(rec)
  if rec.sp then
    return rec.sp.he
  end
  return math.min((next_bound(rec)), silence_at(rec) or MOST_WHOLE)
end

-- Does a heartbeat have to look at the record, whatever the key says? It would have to know of a bound else.
function is_bounded(rec)
  return rec.ph or rec.sa or rec.si or rec.dl or policy_of(rec)[7] ~= DEFAULT_TIMEOUT_MS
end
end
