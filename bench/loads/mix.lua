-- 80 % pages of 20, half of them the first and half at random cursors, 15 % animals at random, 5 % new animals.
local requests = require("requests")

function prepare()
  local first, any = requests.list("limit=20"), requests.list_after_cursor()
  local get, create = requests.get_random(), requests.create()
  return function()
    local drawn = math.random(100)
    if drawn <= 40 then
      return first()
    elseif drawn <= 80 then
      return any()
    elseif drawn <= 95 then
      return get()
    end
    return create()
  end
end
