-- enqueue_rare: what few tasks need: a policy of their own, a due time, a lane, an owner, a deadline, budgets, a body too
-- large for the record, an id that is known.

local TEXT_BYTES, MOST_BUDGETS = 256, 16
local types_refused = wrong_type('scheduled', 'waiting', 'deadlines', 'lanes')

local function policy_is_sound(fixed)
  return policy_in(fixed) ~= false
end

local function text_at_most(value, most)
  return type(value) == 'string' and value ~= '' and #value <= most
end

local function time_at_most(value, most)
  return type(value) == 'number' and value >= 1 and value <= most
end

local function budgets_are_sound(budgets)
  local names = 0
  for name, most in pairs(type(budgets) == 'table' and budgets or { false }) do
    names = names + 1
    if not text_at_most(name, 64) or not find(name, '^[%w._-]+$') or type(most) ~= 'number' or most < 0 or most >= MOST_WHOLE or most % 1 ~= 0 then
      return false
    end
  end
  return names <= MOST_BUDGETS
end

-- What a field of a spec must be.
local SPEC = {
  lane = function(v) return text_at_most(v, TEXT_BYTES) end,
  owner = function(v) return text_at_most(v, TEXT_BYTES) end,
  deadline = function(v) return sound_when(v) end,
  silence = function(v) return time_at_most(v, MOST_MS) end,
  stall = function(v) return time_at_most(v, MOST_MS) end,
  budgets = budgets_are_sound,
}
local specs = {}

-- What is wrong with a spec, or nil. Its fields are kept for the acceptance.
local function spec_fault(packed)
  local ok, spec = pcall(cmsgpack.unpack, packed)
  if not ok or type(spec) ~= 'table' then
    return 'spec'
  end
  for field, value in pairs(spec) do
    if not SPEC[field] or not SPEC[field](value) then
      return 'spec.' .. tostring(field)
    end
  end
  specs[packed] = spec
end

-- Does nothing foreign lie where the lane would be?
local function lane_stands(packed)
  local lane = packed ~= '' and specs[packed].lane
  return not lane or type(pcall_redis('ZCARD', lane_key(hash_of(lane)))) == 'number'
end

-- What is too large for the record gets a key of its own.
local function place_body(id, rec)
  local begins = body_begins(rec.fixed)
  if #rec.fixed - begins + 1 > INLINE then
    call('SET', Q .. 'body:' .. id, string.sub(rec.fixed, begins))
    rec.fixed = struct.pack('>H', begins - 3) .. string.sub(rec.fixed, 3, begins - 1)
  end
end

local function note_spec(id, rec, spec)
  rec.ln, rec.ow, rec.si, rec.sa = spec.lane, spec.owner, spec.silence, spec.stall
  if spec.deadline then
    rec.dl = due_of(spec.deadline)
    -- One that is told from the enqueue on begins anew when a person retries the task.
    rec.dr = string.sub(spec.deadline, 1, 1) == '+' and rec.dl - now or nil
    index('deadlines', rec.dl, id)
  end
  if spec.budgets and next(spec.budgets) then
    rec.bu = {}
    for name, most in pairs(spec.budgets) do
      rec.bu[name] = { most, 0 }
    end
  end
end

local function accept_rare(id, level, fixed, due, packed)
  local rec = new_record(level, fixed)
  if packed and packed ~= '' then
    note_spec(id, rec, specs[packed])
  end
  if due > now then
    place_scheduled(id, rec, due)
  else
    place_ready(id, rec, level)
  end
  place_body(id, rec)
  save(id, rec)
  return rec.st
end

-- What is there already under an id.
local function known_as(id, fixed)
  local rec = load(id)
  if rec == false then
    return 'corrupt', ''
  end
  return digest_of(rec.fixed) == digest_of(fixed) and 'exists' or 'conflict', rec.st
end
