import os

from store import AuthenticatedClient
from store.api.pets import create_pet, get_pet, list_pets
from store.models import InvalidRequestOrJsonError, NewPet, PetNotFoundError, UnauthorizedError

BASE, KEY = os.environ["BASE"], os.environ["KEY"]
client = AuthenticatedClient(base_url=BASE, token=KEY)

rex = NewPet(name="Rex", category_id=9007199254740993)
print(create_pet.sync(client=client, body=rex).category_id)

invalid = create_pet.sync(client=client, body=NewPet(name="", category_id=1))
assert isinstance(invalid, InvalidRequestOrJsonError)
print(invalid.status, invalid.code.value)

stranger = list_pets.sync(client=AuthenticatedClient(base_url=BASE, token="nobody"))
assert isinstance(stranger, UnauthorizedError)
print(stranger.status, stranger.code.value)

missing = get_pet.sync(9223372036854775807, client=client)
assert isinstance(missing, PetNotFoundError)
print(missing.status, missing.code.value)
