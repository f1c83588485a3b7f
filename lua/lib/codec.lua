-- codec: one task's record, one string, read whole and written whole.
--
--   head    numbers of fixed width: MAGIC, format, state, rev, due, waiting since or ended at, level, attempt, failures,
--           reclaims, begin and token of the current or last run
--   run     its length and the run id: the entry of a queued task, the run of a running one, the last of an ended one
--   inc     the same of the incarnation that owns it, or owned it last
--   rare    length and MessagePack map of what few tasks have; releases carry fields that they do not know
--   w, en   worker; when it was enqueued
--   fixed   length (2 bytes), digest (8), length and bytes of the policy, body: as the client sent it, never changed
--   output  the rest
--
-- What changes at each transition comes first, and what is compared comes next: lib/plain.lua cuts and joins there.

local STATE_OF = { 'scheduled', 'queued', 'running', 'aborting', 'completed', 'failed', 'timed_out', 'aborted', 'waiting' }
local CODE_OF = {}
for code, state in ipairs(STATE_OF) do
  CODE_OF[state] = code
end

local new_record, decode, encode

do
-- Failures and reclaims have 2 bytes; policies allow 10,000.
local REST, MOST_COUNTED = '>Bc0Bc0I3c0Bc0I6', 65535

-- Fields outside the head are read and written like any other and lie in `rec.x`. Fields of the head are never nil:
-- 0 and '' stand for none. `packed` is the string that `save` has made of it, `was` the state in which Redis has it.
local RARE_FIELDS = {
  __index = function(rec, field)
    local x = rawget(rec, 'x')
    return x and x[field] or nil
  end,
  __newindex = function(rec, field, value)
    if value ~= nil and not rec.x then
      rec.x = {}
    end
    if rec.x then
      rec.x[field] = value
    end
  end,
}

-- A record that no key holds yet.
function new_record(level, fixed)
  return setmetatable({ st = '', lv = level, rev = 0, n = 0, f = 0, c = 0, en = now, at = 0, bg = 0, t = 0, run = '',
    inc = '', w = '', fixed = fixed, o = '', x = false, packed = false, was = '' }, RARE_FIELDS)
end

-- False for what cannot be read; false and its format when a newer release wrote it.
function decode(raw)
  local magic, v = string.byte(raw, 1, 2)
  if magic ~= MAGIC or v ~= FORMAT then
    return false, magic == MAGIC and v and v > FORMAT and v or nil
  end
  local ok, _, _, st, rev, at, lv, n, f, c, bg, t, run, inc, rare, w, en, rest =
    pcall(struct.unpack, HEAD .. REST, raw)
  local high, low = string.byte(raw, ok and rest or 1, ok and rest + 1 or 0)
  if not low then
    return false
  end
  local x = false
  if rare ~= '' then
    ok, x = pcall(cmsgpack.unpack, rare)
    if not ok or not sound_rare(x) then
      return false
    end
  end
  local output_at = rest + 2 + high * 256 + low
  local rec = setmetatable({ st = STATE_OF[st], lv = LEVELS[lv], rev = rev, n = n, f = f, c = c, en = en, at = at,
    bg = bg, t = t, run = run, inc = inc, w = w, fixed = string.sub(raw, rest, output_at - 1),
    o = string.sub(raw, output_at), x = x, packed = false, was = STATE_OF[st] or '' }, RARE_FIELDS)
  return output_at <= #raw + 1 and sound(rec) and rec
end

function encode(rec)
  local rare = rec.x and next(rec.x) and cmsgpack.pack(rec.x) or ''
  return struct.pack(HEAD, MAGIC, FORMAT, CODE_OF[rec.st], rec.rev, rec.at, LEVEL_CODE[rec.lv], rec.n,
    math.min(rec.f, MOST_COUNTED), math.min(rec.c, MOST_COUNTED), rec.bg, rec.t)
    .. struct.pack(REST, #rec.run, rec.run, #rec.inc, rec.inc, #rare, rare, #rec.w, rec.w, rec.en)
    .. rec.fixed .. rec.o
end
end
