export { AnimalStore, type AnimalStoreOptions, type ListPetsQuery } from './animal-store.js';
export type { Deprecation } from './deprecation.js';
export { StoreError } from './store-error.js';
export type { NewPet, Pet, PetStatus } from './animal-store.js';
