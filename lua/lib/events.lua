-- events: keeps the event stream within its age and its number of transitions. Used by `sweep`.

local trim_events

do
local EVENTS_MS, TRANSITIONS_KEPT = 604800000, 100000
local PAGE, PAGES = 100, 20

-- Each entry tells the number of its last transition, so what is too old by count is found without counting.
-- At most so many entries a call; the next sweep goes on.
function trim_events()
  local events = Q .. 'events'
  call('XTRIM', events, 'MINID', '~', int(math.max(0, now - EVENTS_MS)))
  local oldest = (whole(call('HGET', Q .. 'totals', 'transitions')) or 0) - TRANSITIONS_KEPT
  for _ = 1, PAGES do
    local page = call('XRANGE', events, '-', '+', 'COUNT', PAGE)
    local goes = 0
    while page[goes + 1] and (whole(page[goes + 1][2][4]) or 0) <= oldest do
      goes = goes + 1
    end
    if goes > 0 then
      local ms, seq = string.match(page[goes][1], '^(%d+)%-(%d+)$')
      call('XTRIM', events, 'MINID', ms .. '-' .. int(tonumber(seq) + 1))
    end
    if goes < PAGE then
      return
    end
  end
end
end
