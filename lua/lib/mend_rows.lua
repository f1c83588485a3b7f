-- mend_rows: what is left of tasks that have no record, rows that are not those of the task they name, and the totals.

local is_where, remove_rest, mend_row_at

do
-- Keys that name their tasks by the hash of a text, and the field of that text.
local FIELD_OF = { lane = 'ln', ['lane-ends'] = 'ln', owner = 'ow' }

local function parts_of(where)
  local kind, rest = string.match(where, '^([%a-]+):(.+)$')
  if kind == 'ready' then
    local level, entry = string.match(rest, '^(%a+) (%d+%-%d+)$')
    return LEVEL_CODE[level] and kind, level, entry
  end
  return FIELD_OF[kind] and string.find(rest, '^%x+$') and #rest == 32 and kind, rest
end

function is_where(where)
  return where == '' or where == 'totals' or parts_of(where)
end

-- Nothing of a task stays without its record.
function remove_rest(id)
  local rows, removed = 0, call('ZREM', Q .. 'deadlines', id)
  for _, place in ipairs(STATE_PLACES) do
    rows = rows + call('ZREM', Q .. place, id)
  end
  for _, prefix in ipairs(KEYS_OF_A_TASK) do
    if prefix ~= 'waiter:' then
      removed = removed + call('UNLINK', Q .. prefix .. id)
    end
  end
  if rows + removed == 0 then
    return 'sound', ''
  end
  count('dropped', rows)
  event(id, '', '', 0, 'dropped: repaired, it had no record')
  return 'removed', 'rows and keys of a task without a record: ' .. int(rows + removed)
end

local function mend_entry_at(level, entry)
  local stream = Q .. 'ready:' .. level
  local found = pcall_redis('XRANGE', stream, entry, entry)
  if found.err or not found[1] then
    return 'sound', ''
  end
  local id = found[1][2][2]
  local rec = load(id)
  if rec == false or (rec and rec.st == 'queued' and rec.run == level .. ':' .. entry) then
    return rec and 'sound' or 'corrupt', ''
  end
  call('XDEL', stream, entry)
  event(id, 'queued', '', 0, 'dropped: repaired, no record is queued under this entry')
  count('dropped')
  return 'removed', 'entry ' .. entry .. ' of level ' .. level .. ', which no task was queued under'
end

-- A row by the hash of a text that the task's record does not say.
local function leave_row(id, kind, hash)
  local key, rec = Q .. kind .. ':' .. hash, load(id)
  local text = rec and rec[FIELD_OF[kind]]
  if rec == false or (text and hash_of(text) == hash) or not tonumber(pcall_redis('ZSCORE', key, id) or nil) then
    return nil
  end
  if kind == 'lane' then
    drop_member(hash, id)
  else
    pcall_redis('ZREM', key, id)
    event(id, '', '', 0, 'dropped: repaired, the row was not its own')
  end
  return 'a row of ' .. kind .. ' that was not its own'
end

local function settle()
  local missing = unaccounted()
  if missing == 0 then
    return 'sound', ''
  end
  local name = missing > 0 and 'gone' or 'enqueued'
  count(name, math.abs(missing))
  return 'repaired', 'totals add up again: ' .. name .. ' is ' .. int(math.abs(missing)) .. ' more'
end

function mend_row_at(id, where)
  if where == 'totals' then
    return settle()
  end
  local kind, at, entry = parts_of(where)
  if kind == 'ready' then
    return mend_entry_at(at, entry)
  end
  local left = id ~= '' and leave_row(id, kind, at) or nil
  local did = kind == 'lane' and mend_whole_lane(at) or {}
  if left then
    table.insert(did, 1, left)
  end
  return left and 'removed' or #did > 0 and 'repaired' or 'sound', table.concat(did, ', ')
end
end
