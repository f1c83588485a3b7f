-- pulse: how long somebody has really been looking. A lease that lapsed while nobody swept, or while Redis
-- was away, proves nothing; so suspicion is measured by a watch clock that stands still in gaps.

local read_pulse, advance, last_gap_at, suspicion_left

do
function read_pulse()
  local p = call('HMGET', Q .. 'pulse', 'last', 'gap', 'gap_at', 'watch', 'settled')
  return { last = whole(p[1]) or now, gap = whole(p[2]) or -1e15, gap_at = whole(p[3]) or 0, watch = whole(p[4]) or 0,
    settled = whole(p[5]) }
end

local function longest_step()
  return math.min(2000, B)
end

-- Advances the watch clock to now; a step too long, or backwards, is a gap.
function advance(p)
  local step = now - p.last
  local gap = step > longest_step() or step < 0
  p.watch = p.watch + math.max(0, math.min(step, longest_step()))
  if gap then
    p.gap, p.gap_at = p.watch, now
  end
  p.last, p.step = now, math.max(0, step)
  return gap
end

-- When the last gap was over; now, if nobody has looked for too long. For who does not look himself.
function last_gap_at()
  local p = read_pulse()
  advance(p)
  return p.gap_at
end

-- How much longer a run whose lease is missing must be watched, in ms of watch clock; 0 = it is dead.
-- The first look is noted in `rec.ml`; a gap after it, or less than T before it, makes the second look later.
function suspicion_left(rec, p)
  local needed = p.gap > rec.ml - T and T or B
  return math.max(0, needed - (p.watch - rec.ml))
end
end
