-- Animals at random.
local requests = require("requests")

function prepare()
  return requests.get_random()
end
