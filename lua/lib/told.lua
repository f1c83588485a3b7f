-- told: the kinds of things that a run tells of itself: what is wrong with an item, and how it is taken. Each is called
-- for a run that owns its task.

local TOLD

do
local NOTE_BYTES, PIDS_BYTES = 1024, 256

local function progress(item, rec)
  if item.number <= (rec.us or 0) then
    return
  end
  rec.us, rec.pg = item.number, tonumber(item.value) or rec.pg
  if item.text ~= '' then
    call('SET', Q .. 'note:' .. item.id, string.sub(item.text, 1, NOTE_BYTES))
  end
  note_life(item.id, rec)
  save(item.id, rec)
end

-- A phase begins, which ends the one before. Entered again it begins anew.
local function enter_phase(item, rec)
  if item.number <= (rec.up or 0) then
    return
  end
  close_phase(item.id, rec)
  rec.up, rec.ph = item.number, { n = item.text, at = now, tm = whole(item.value) or 0 }
  note_life(item.id, rec)
  mark_key(item.id, rec)
  -- A bound may lie before the look that is planned.
  call('ZADD', Q .. 'running', 'XX', 'LT', int(next_look(rec)), item.id)
  event(item.id, rec.st, rec.st, rec.n, 'phase ' .. item.text)
  save(item.id, rec)
end

-- Takes charges in order, each whole, up to the first that is above the rest: then the run has to end.
local function spend(item, rec)
  if rec.ub and item.number <= rec.ub[1] then
    return rec.ub[2], rec.ub[3]
  end
  local budget = rec.bu and rec.bu[item.text]
  if not budget then
    return 'unknown'
  end
  local taken, tag = 0, 'ok'
  for charge in string.gmatch(item.value, '%d+') do
    if budget[2] + tonumber(charge) > budget[1] then
      tag = 'exceeded'
      request_stop(item.id, rec, 'budget_exceeded', policy_of(rec)[8], 'leasehold', 'budget ' .. item.text)
      call('ZADD', Q .. 'running', 'XX', 'LT', int(next_look(rec)), item.id)
      break
    end
    taken, budget[2] = taken + 1, budget[2] + tonumber(charge)
  end
  rec.ub = { item.number, tag, int(taken) .. ' ' .. int(budget[1] - budget[2]) }
  note_life(item.id, rec)
  save(item.id, rec)
  return tag, rec.ub[3]
end

local function checkpoint(item, rec)
  if item.number <= (rec.uc or 0) then
    return
  end
  call('SET', Q .. 'checkpoint:' .. item.id, item.text)
  rec.uc, rec.ck = item.number, #item.text
  note_life(item.id, rec)
  save(item.id, rec)
end

-- The system does not end these processes: nobody may say that the run has ended.
local function unkillable(item, rec)
  if not rec.uk then
    event(item.id, rec.st, rec.st, rec.n, 'unkillable')
  elseif rec.uk[1] == now and rec.uk[2] == item.text then
    return
  end
  rec.uk = { now, item.text }
  save(item.id, rec)
end

TOLD = {
  progress = { take = progress, fault = function(item)
    local share = string.find(item.value, '^[01]%.?%d*$') and tonumber(item.value)
    return item.value ~= '' and not (share and share <= 1) and 'value: 0 to 1'
  end },
  log = { take = append, fault = function(item)
    return item.value ~= 'out' and item.value ~= 'err' and 'value: out or err'
  end },
  phase = { take = enter_phase, fault = function(item)
    return (not string.find(item.text, '^[%w._-]+$') or #item.text > 64 or (item.value ~= '' and
      not whole(item.value, 1))) and 'text: a name; value: a timeout in ms'
  end },
  spend = { take = spend, fault = function(item)
    return not string.find(item.value, '^%d[%d ]*$') and 'value: charges'
  end },
  checkpoint = { take = checkpoint, fault = function(item)
    return item.value ~= '' and 'value: none'
  end },
  unkillable = { take = unkillable, fault = function(item)
    return (item.value ~= '' or #item.text > PIDS_BYTES) and 'value: none; text: at most 256 bytes'
  end },
}
end
