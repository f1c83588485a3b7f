-- offer: what may be wrong with a task that a client offers.

local ID_BYTES, LATEST_MS = 64, 253402300799000

local function sound_when(when)
  local ms = type(when) == 'string' and whole(string.match(when, '^[+@](%d+)$'))
  return ms and ms <= LATEST_MS
end

-- What is wrong with an item, or nil.
local function fault_of(id, level, fixed, when, policy_is_sound)
  if not fixed then
    return 'items are not whole'
  elseif id == '' or #id > ID_BYTES or find(id, '\n', 1, true) then
    return 'id'
  elseif not LEVEL_CODE[level] or level == 'again' then
    return 'level'
  elseif not sound_fixed(fixed) or (has_policy(fixed) and not policy_is_sound(fixed)) then
    return 'fixed'
  elseif when ~= '' and not sound_when(when) then
    return 'when'
  end
end

local function due_of(when)
  local ms = tonumber(string.sub(when, 2))
  return string.sub(when, 1, 1) == '+' and now + ms or ms
end
