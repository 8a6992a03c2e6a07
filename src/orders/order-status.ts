/** An Order's status (interface, part 4.4). */
export const ORDER_STATUSES = ['placed', 'approved', 'delivered'] as const;

export type OrderStatus = (typeof ORDER_STATUSES)[number];
