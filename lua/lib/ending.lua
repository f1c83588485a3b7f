-- ending: what is left of a task when it ends, and when it is removed.

local KEYS_OF_A_TASK = { 'task:', 'body:', 'lease:', 'result:', 'errors:', 'log:', 'note:', 'phases:', 'checkpoint:',
  'waiter:' }

-- Removes everything a task has. Its id is remembered for a minute when its end is younger than that.
local function discard(id, rec)
  for _, prefix in ipairs(KEYS_OF_A_TASK) do
    delete_key(prefix .. id)
  end
  if rec.ow then
    pcall_redis('ZREM', owner_key(rec), id)
  end
  if rec.ln then
    forget_end(id, rec)
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
  if rec.dl then
    -- At once, not noted: a sweep looks for late tasks behind the runs that it ends.
    call('ZREM', Q .. 'deadlines', id)
  end
  if rec.ln then
    leave_lane(id, rec)
  end
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
