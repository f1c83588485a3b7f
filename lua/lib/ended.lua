-- ended: who is told that a task has ended, and what is counted.

-- Does anybody wait for the end of a task of this queue? Asked once a call.
local waited

local function somebody_waits(id)
  if waited == nil then
    waited = call('EXISTS', Q .. 'waited') == 1
  end
  return waited and call('EXISTS', Q .. 'waiter:' .. id) == 1
end

local function note_ended(id, state)
  count(state)
  if somebody_waits(id) then
    publish('ended', id .. ' ' .. state)
  end
end
