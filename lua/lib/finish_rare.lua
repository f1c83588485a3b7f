-- finish_rare: ends that are no plain result.

-- Where such ends may lead.
local types_refused = wrong_type('ready:urgent', 'ready:again', 'ready:high', 'ready:normal', 'ready:low', 'scheduled',
  'waiting', 'deadlines', 'lanes', 'done:failed', 'done:timed_out', 'done:aborted', 'gone', 'wake')

local OUTCOMES = { completed = true, failed = true, stopped = true, snoozed = true, released = true, unknown = true }
local KINDS = { error = true, exit_code = true, signal = true, invalid_result = true, rejected = true, [''] = true,
  lease_expired = true, abort = true, run_timeout = true, phase_timeout = true, stalled = true, deadline = true,
  budget_exceeded = true, drain = true }

-- The data of all outcomes but `completed`; nil when it cannot be read.
local function read_data(packed)
  local ok, data = true, {}
  if packed ~= '' then
    ok, data = pcall(cmsgpack.unpack, packed)
  end
  if not ok or type(data) ~= 'table' or not KINDS[data.k or ''] then
    return nil
  end
  local d, m, x = data.d or '', data.m or '', data.x or {}
  if type(d) ~= 'string' or type(m) ~= 'string' or type(x) ~= 'table' then
    return nil
  end
  data.ms = duration(d)
  return (data.ms or d == '' or d == 'fatal') and data or nil
end

-- Says what of an item is wrong.
local function prepare(outcome, packed)
  local data = OUTCOMES[outcome] and read_data(packed)
  if not OUTCOMES[outcome] then
    return 'outcome'
  end
  return (not data or (outcome == 'snoozed' and not data.ms)) and 'data' or nil
end

local function failure_of(data)
  local kind = data.k or ''
  return { kind = kind ~= '' and kind or 'error', message = data.m or '', fatal = data.d == 'fatal',
    delay = data.ms, detail = data.x and cmsgpack.pack(data.x), cause = kind }
end

-- Bounds of time count while there is work. Nobody asks when a finish arrives: cleanups and outages come in between.
local BOUNDS_OF_WORK = { run_timeout = true, phase_timeout = true, stalled = true, deadline = true }

local function end_run(id, rec, outcome, packed)
  local sp = rec.sp
  if outcome == 'completed' then
    if sp and (sp.c == 'budget_exceeded' or sp.ec == 'budget_exceeded') then
      -- It was told at the charge that was refused: what it made of that is no result.
      return end_stopped(id, rec, { message = 'the run went on after a charge was refused' })
    end
    return end_completed(id, rec, packed)
  end
  local data = read_data(packed)
  if data.b == true and sp and BOUNDS_OF_WORK[sp.c] then
    rec.sp = nil
  end
  if outcome == 'stopped' or rec.sp then
    return end_stopped(id, rec, failure_of(data))
  end
  if outcome == 'failed' then
    return end_with_failure(id, rec, failure_of(data))
  end
  if outcome == 'snoozed' then
    count('snoozed')
    return again_after(id, rec, data.ms, rec.lv, 'snooze')
  end
  if outcome == 'released' then
    return release(id, rec)
  end
  return end_unknown(id, rec, data.m or '')
end

local function finish(id, run, outcome, packed)
  local rec = load(id)
  if rec == false then
    return 'corrupt', ''
  end
  if not rec or ledger.gone[id] then
    return (ledger.gone[id] or is_gone(id)) and 'gone' or 'lost', ''
  end
  if owns(rec, run, inc) then
    end_run(id, rec, outcome, packed)
    return 'ok', rec.st
  end
  local left = ended_as(rec, run, inc)
  return left and 'repeat' or 'lost', left or ''
end
