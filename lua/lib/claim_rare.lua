-- claim_rare: what few claims need: claims that are repeated, tasks that are due or not plain.

-- Where an ended task would go. What lies there and is foreign keeps the entry that ends there where it is.
local types_refused = wrong_type('done:failed', 'done:timed_out', 'gone', 'waiting', 'deadlines', 'lanes')

-- Tasks on their last chance share no worker: else one that kills its worker each time ends its neighbours with it.
local function has_last_chance_in_hand()
  local rec = chance and type(chance[1]) == 'string' and load(chance[1])
  return rec and owns(rec, chance[2], inc)
end

-- The body, if it lies in a key of its own; '' if it lies in the record; nil when it is missing.
local function body_apart(id, rec)
  return body_begins(rec.fixed) <= #rec.fixed and '' or body_of(id, rec)
end

-- The runs of the last answer that are still this incarnation's: it has claimed nothing since.
local function repeat_last()
  for id in string.gmatch(last.ids, '[^\n]+') do
    local rec = load(id)
    local apart = rec and owns(rec, rec.run, inc) and body_apart(id, rec)
    if apart then
      if rec.ml then
        rec.ml = nil
        save(id, rec)
      end
      lease(id, rec, T)
      hand_out(id, rec.packed or encode(rec), apart)
    end
  end
end

local function start(id, rec, apart)
  enter(rec, 'running')
  token = token + 1
  rec.inc, rec.w, rec.n, rec.t, rec.bg = inc, worker, rec.n + 1, token, now
  if rec.us then
    delete_key('note:' .. id)
  end
  rec.us, rec.lo, rec.pg, rec.ph, rec.up, rec.uc, rec.ub, rec.la = nil, nil, nil, nil, nil, nil, nil, nil
  save(id, rec)
  index('running', math.min(now + T, next_look(rec)), id)
  event(id, 'queued', 'running', rec.n, worker)
  hand_out(id, rec.packed, apart)
end

-- Ends the task of an entry, by `how`; its lane may let the next one go.
local function end_entry(how, ...)
  local before = ledger.wake
  ledger.wake = false
  how(...)
  let_go, ledger.wake = let_go or ledger.wake, before
end

-- The task of an entry: starts it, or says why the entry goes. False: it stays, for a newer release or another worker.
local function take(id, run)
  local rec, newer = load(id)
  if newer then
    return false
  end
  if not rec or rec.st ~= 'queued' or rec.run ~= run then
    event(id, 'queued', '', 0, 'dropped: no record is queued under this entry')
    count('dropped')
    return true
  end
  if rec.dl and now >= rec.dl and not types_refused then
    end_entry(end_late, id, rec)
    return true
  end
  if on_last_chance(rec) then
    if has_last_chance_in_hand() then
      return false
    end
    chance = { id, run }
  end
  local apart = body_apart(id, rec)
  if apart then
    start(id, rec, apart)
    return true
  end
  if types_refused then
    return false
  end
  rec.w = worker
  note_failure(id, rec, { kind = 'rejected', message = 'the body of the task is missing in Redis' })
  end_entry(end_unowned, id, rec, 'failed', 'rejected')
  return true
end

-- Returns the next due time after those that are due now.
local function promote_due()
  promote(PROMOTE)
  for _, level in ipairs(LEVELS) do
    unseen[level] = call('XLEN', READY[level])
  end
  return tonumber(call('ZRANGE', Q .. 'scheduled', '0', '0', 'WITHSCORES')[2])
end
