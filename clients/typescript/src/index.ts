export {
  AnimalStore,
  type AnimalStoreOptions,
  type CallOptions,
  type CreatePetOptions,
  isReplayed,
  type ListPetsQuery,
  type NewPet,
  type Page,
  type Pet,
  type PetStatus,
} from './animal-store.js';
export type { Deprecation } from './deprecation.js';
export { parse, stringify } from './int64.js';
export { StoreError, type StoreErrorCode } from './store-error.js';
export type { Retry } from './transport.js';
