import { addressOf, kernelName, networkOf } from '../../src/http/network.js';

it.each([
  ['192.0.2.1', '192.0.2.1', '010200C0:1F90'],
  ['::ffff:192.0.2.1', '192.0.2.1', '010200C0:1F90'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2', 'B80D0120020001000400030006000500:1F90'],
  ['2001:db8::9', '2001:db8:0:0', 'B80D0120000000000000000009000000:1F90'],
  ['fe80::1%eth0', 'fe80:0:0:0', '000080FE000000000000000001000000:1F90'],
  ['fe80::1%eth0.100', 'fe80:0:0:0', '000080FE000000000000000001000000:1F90'],
  ['::1', '0:0:0:0', '00000000000000000000000001000000:1F90'],
  ['2001:db8:1:2::', '2001:db8:1:2', 'B80D0120020001000000000000000000:1F90'],
])('%s is of the network %s', (address, network, inKernel) => {
  expect(networkOf(address)).toBe(network);
  expect(kernelName(address, 8080)).toBe(inKernel);
});

it.each([
  [1, '0001'],
  [80, '0050'],
  [4095, '0FFF'],
  [65535, 'FFFF'],
])('the port %i is %s in the tables of Linux', (port, inKernel) =>
  expect(kernelName('192.0.2.1', port)).toBe(`010200C0:${inKernel}`),
);

it.each([
  ['192.0.2.1', '192.0.2.1'],
  ['::FFFF:192.0.2.1', '192.0.2.1'],
  ['0:0::ffff:c000:201', '192.0.2.1'],
  ['2001:DB8:0:0:0::1', '2001:db8::1'],
  [`fe80::9%${'a'.repeat(64)}`, 'fe80::9'],
  ['64:ff9b::192.0.2.1', '64:ff9b::c000:201'],
  ['192.0.2.1%eth0', '192.0.2.1'],
  ['192.0.2', undefined],
  ['::1\n', undefined],
  ['unknown', undefined],
  ['', undefined],
])('the address of %j is %s', (text, address) => {
  expect(addressOf(text)).toBe(address);
});
