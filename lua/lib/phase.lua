-- phase: the named stages of a run: which one, since when, for how long at most; and those before.

local close_phase

do
local PHASES_KEPT = 100

-- The phase ends: with the next one, or with the run. The record keeps the last one.
function close_phase(id, rec)
  local ph = rec.ph
  if not ph or ph.e then
    return
  end
  ph.e = now
  local key = Q .. 'phases:' .. id
  local found = call('TYPE', key).ok
  if found ~= 'list' and found ~= 'none' then
    return
  end
  call('RPUSH', key, cmsgpack.pack({ ph.n, rec.n, ph.at, now }))
  call('LTRIM', key, -PHASES_KEPT, -1)
end
end
