-- levels: takes tasks of several levels, or such as are not plain.

local function has_room()
  return looks > 0 and (#handed == 0 or bytes < max_bytes)
end

-- Takes up to `most` tasks from the head of a level. What was seen leaves in one trim, or one by one behind an entry
-- that stays.
local function take_from(level, most)
  local stream, before, leaving, seen = READY[level], #handed, {}, nil
  local page, keys = call('XRANGE', stream, from[level] or '-', '+', 'COUNT', most), {}
  for i = 1, #page do
    keys[i] = TASK .. page[i][2][2]
  end
  prefetch(keys)
  local prefix = level .. ':'
  for i = 1, #page do
    local entry = page[i]
    if not has_room() then
      break
    end
    seen, looks, unseen[level] = entry[1], looks - 1, unseen[level] - 1
    local id = entry[2][2]
    if start_plain(id, keys[i], prefix, seen) or take(id, prefix .. seen) then
      leaving[#leaving + 1] = seen
    else
      left_behind[level] = true
    end
  end
  if not seen then
    unseen[level] = 0
    return 0
  end
  from[level] = '(' .. seen
  if not left_behind[level] then
    local ms, seq = string.match(seen, '^(%d+)%-(%d+)$')
    call('XTRIM', stream, 'MINID', ms .. '-' .. int(tonumber(seq) + 1))
  elseif #leaving > 0 then
    call('XDEL', stream, unpack(leaving))
  end
  removed = removed + #leaving
  return #handed - before
end

local function take_up_to(most, levels)
  for _, level in ipairs(levels) do
    while most > 0 and unseen[level] > 0 and has_room() do
      most = most - take_from(level, most)
    end
  end
end

-- How many levels hold entries that this call has not seen.
local function levels_left()
  local left = 0
  for _, level in ipairs(LEVELS) do
    left = left + (unseen[level] > 0 and 1 or 0)
  end
  return left
end

-- Every eighth started task is read lowest first, so that nothing starves. Returns how many levels have entries left.
local function take_all()
  local started = levels_left() > 1 and tonumber(pcall_redis('HGET', Q .. 'totals', 'started') or 0) or 0
  while #handed < want and levels_left() > 0 and has_room() do
    local until_lowest = LOWEST_EVERY - 1 - (started + #handed) % LOWEST_EVERY
    if levels_left() == 1 then
      take_up_to(want - #handed, LEVELS)
    elseif until_lowest > 0 then
      take_up_to(math.min(until_lowest, want - #handed), LEVELS)
    else
      take_up_to(1, LOWEST_FIRST)
    end
  end
  return levels_left()
end
