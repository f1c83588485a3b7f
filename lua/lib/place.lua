-- place: puts a task where its state says it is. The caller has taken it out of its old place.

local KEYS_OF_A_TASK = { 'task:', 'body:', 'lease:', 'result:', 'errors:', 'log:', 'note:', 'waiter:' }

-- Queued: one entry at the tail of a ready stream. The record names the entry.
local function place_queued(id, rec, level)
  local entry = call('XADD', Q .. 'ready:' .. level, '*', 'i', id)
  enter(rec, 'queued')
  rec.run, rec.inc, rec.at = level .. ':' .. entry, '', 0
  ledger.wake = true
end

-- Scheduled: due at `due` ms.
local function place_scheduled(id, rec, due)
  local first = call('ZRANGE', Q .. 'scheduled', 0, 0, 'WITHSCORES')
  if not first[2] or due < tonumber(first[2]) then
    ledger.wake = true
  end
  enter(rec, 'scheduled')
  rec.run, rec.inc, rec.at = '', '', due
  -- At once, not noted: a later item of this call compares with the earliest due time.
  call('ZADD', Q .. 'scheduled', int(due), id)
end

-- Removes everything a task has. Its id is remembered for a minute when its end is younger than that.
local function discard(id, rec)
  for _, prefix in ipairs(KEYS_OF_A_TASK) do
    delete_key(prefix .. id)
  end
  forget(id)
  ledger.gone[id] = true
  if now - rec.at < GONE_MS then
    index('gone', now, id)
  end
  count('gone')
end

-- Terminal: kept under its state, or discarded at once where the queue keeps nothing of that state.
local function place_ended(id, rec, state)
  enter(rec, state)
  rec.at = now
  if rec.inc == '' then
    -- It has not run since it was queued: the entry it waited under is no run.
    rec.run = ''
  end
  note_ended(id, state)
  if retention[state] == 0 then
    discard(id, rec)
  else
    index('done:' .. state, now, id)
  end
end

-- Writes the record, unless this call has just discarded the task.
local function settle(id, rec)
  if not ledger.gone[id] then
    save(id, rec)
  end
end
