-- lease: the heartbeat key: the sign that a run is alive. The record says who owns a task.

local DRIVEN_PX = 86400000

local function fence(rec)
  return rec.run .. ' ' .. rec.inc
end

-- Takes or renews the lease of a record's run for `ms`.
local function lease(id, rec, ms)
  if driven then
    call('SET', Q .. 'lease:' .. id, fence(rec) .. ' ' .. int(now + ms), 'PX', DRIVEN_PX)
  else
    call('SET', Q .. 'lease:' .. id, fence(rec), 'PX', int(ms))
  end
end

-- Milliseconds left, 0 when this run holds no lease. Clamps what lies further ahead than any lease can.
local function lease_left(id, rec)
  local held = pcall_redis('GET', Q .. 'lease:' .. id)
  if type(held) ~= 'string' then
    return 0
  end
  if driven then
    local whose, expiry = string.match(held, '^(.*) (%d+)$')
    local left = whose == fence(rec) and math.max(0, tonumber(expiry) - now) or 0
    if left > T + B then
      lease(id, rec, T)
      return T
    end
    return left
  end
  if held ~= fence(rec) then
    return 0
  end
  local left = call('PTTL', Q .. 'lease:' .. id)
  if left < 0 or left > T + B then
    call('PEXPIRE', Q .. 'lease:' .. id, int(T))
    return T
  end
  return math.max(left, 1)
end
