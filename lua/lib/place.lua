-- place: puts a task that has not ended where its state says it is, and takes it from there.

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

-- Waiting: behind those of its lane that may go. At once, not noted: a later item of this call may let it go.
local function place_waiting(id, rec)
  enter(rec, 'waiting')
  rec.run, rec.inc, rec.at = '', '', now
  call('ZADD', Q .. 'waiting', int(now), id)
end

-- Takes a task that no run owns from its place; its lane and indexes know nothing of it yet. At once, not noted: what
-- looks for due tasks later in this call must not find it.
local function leave_place(id, rec)
  if rec.st == 'scheduled' then
    call('ZREM', Q .. 'scheduled', id)
  elseif rec.st == 'waiting' then
    call('ZREM', Q .. 'waiting', id)
  else
    local level, entry = string.match(rec.run, '^(%a+):(%d+%-%d+)$')
    if LEVEL_CODE[level] then
      -- By pcall: numbers too large for an entry name none.
      pcall_redis('XDEL', Q .. 'ready:' .. level, entry)
    end
  end
end
