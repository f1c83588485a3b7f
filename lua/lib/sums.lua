-- sums: whether the totals of a queue add up: enqueued + restored = live + ended + gone.

local STATE_PLACES = { 'running', 'scheduled', 'waiting', 'done:completed', 'done:failed', 'done:timed_out',
  'done:aborted' }

-- Of the tasks that came, how many are neither there nor counted as gone: they were lost with all their rows. Less than
-- none where the count of those that came was lost, or rows were doubled. Nothing may have been noted before it.
local function unaccounted()
  local there = 0
  for _, level in ipairs(LEVELS) do
    there = there + call('XLEN', Q .. 'ready:' .. level)
  end
  for _, place in ipairs(STATE_PLACES) do
    there = there + call('ZCARD', Q .. place)
  end
  local t = call('HMGET', Q .. 'totals', 'enqueued', 'restored', 'gone')
  return (tonumber(t[1] or 0) or 0) + (tonumber(t[2] or 0) or 0) - (tonumber(t[3] or 0) or 0) - there
end
