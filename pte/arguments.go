package pte

// kernelArguments returns how many arguments a call of an operator has, 0 where that is
// not known: those of its schema, outputs included, and what it returns. These are the
// kernels of ExecuTorch 1.5.1, which refuse to run with another number;
// TestRuntimeArgumentCounts asks each.
func kernelArguments(operator string) int {
	switch operator {
	case "aten::_local_scalar_dense", "aten::sym_numel", "executorch_prim::ceil.Scalar",
		"executorch_prim::neg.Scalar", "executorch_prim::round.Scalar",
		"executorch_prim::sym_float.Scalar", "executorch_prim::sym_int.Scalar",
		"executorch_prim::sym_not.Scalar", "executorch_prim::trunc.Scalar":
		return 2
	case "aten::_conj_physical.out", "aten::abs.out", "aten::acos.out", "aten::acosh.out",
		"aten::alias_copy.out", "aten::any.all_out", "aten::arange.out", "aten::asin.out",
		"aten::asinh.out", "aten::atan.out", "aten::atanh.out", "aten::bitwise_not.out",
		"aten::ceil.out", "aten::cos.out", "aten::cosh.out", "aten::detach_copy.out",
		"aten::erf.out", "aten::exp.out", "aten::expm1.out", "aten::floor.out",
		"aten::isinf.out", "aten::isnan.out", "aten::lift_fresh_copy.out", "aten::log.out",
		"aten::log10.out", "aten::log1p.out", "aten::log2.out", "aten::logical_not.out",
		"aten::max.unary_out", "aten::min.unary_out", "aten::neg.out", "aten::nonzero.out",
		"aten::ones.out", "aten::rand.out", "aten::randn.out", "aten::reciprocal.out",
		"aten::relu.out", "aten::round.out", "aten::rsqrt.out", "aten::scalar_tensor.out",
		"aten::sigmoid.out", "aten::sign.out", "aten::sin.out", "aten::sinh.out",
		"aten::sqrt.out", "aten::sym_size.int", "aten::t_copy.out", "aten::tan.out",
		"aten::tanh.out", "aten::trunc.out", "aten::view_as_real_copy.out", "aten::zeros.out",
		"et_copy::_d2h_copy.out", "et_copy::_h2d_copy.out", "executorch_prim::add.Scalar",
		"executorch_prim::eq.Scalar", "executorch_prim::et_copy_index.tensor",
		"executorch_prim::et_view.default", "executorch_prim::floordiv.Scalar",
		"executorch_prim::floordiv.int", "executorch_prim::ge.Scalar",
		"executorch_prim::gt.Scalar", "executorch_prim::le.Scalar", "executorch_prim::lt.Scalar",
		"executorch_prim::mod.Scalar", "executorch_prim::mod.int", "executorch_prim::mul.Scalar",
		"executorch_prim::sub.Scalar", "executorch_prim::sym_max.Scalar",
		"executorch_prim::sym_min.Scalar", "executorch_prim::truediv.Scalar":
		return 3
	case "aten::_adaptive_avg_pool2d.out", "aten::_pdist_forward.out", "aten::atan2.out",
		"aten::bitwise_and.Scalar_out", "aten::bitwise_and.Tensor_out",
		"aten::bitwise_left_shift.Tensor_Scalar_out", "aten::bitwise_left_shift.Tensor_out",
		"aten::bitwise_or.Scalar_out", "aten::bitwise_or.Tensor_out",
		"aten::bitwise_right_shift.Tensor_Scalar_out", "aten::bitwise_right_shift.Tensor_out",
		"aten::bitwise_xor.Scalar_out", "aten::bitwise_xor.Tensor_out", "aten::bmm.out",
		"aten::cat.out", "aten::clone.out", "aten::copy_", "aten::div.Scalar_out",
		"aten::div.out", "aten::empty.out", "aten::eq.Scalar_out", "aten::eq.Tensor_out",
		"aten::fill.Scalar_out", "aten::fill.Tensor_out", "aten::flip.out",
		"aten::floor_divide.out", "aten::fmod.Scalar_out", "aten::fmod.Tensor_out",
		"aten::full.out", "aten::ge.Scalar_out", "aten::ge.Tensor_out", "aten::gelu.out",
		"aten::glu.out", "aten::gt.Scalar_out", "aten::gt.Tensor_out", "aten::index.Tensor_out",
		"aten::le.Scalar_out", "aten::le.Tensor_out", "aten::leaky_relu.out",
		"aten::logical_and.out", "aten::logical_or.out", "aten::logical_xor.out",
		"aten::logit.out", "aten::lt.Scalar_out", "aten::lt.Tensor_out",
		"aten::masked_select.out", "aten::maximum.out", "aten::mean.dtype_out",
		"aten::minimum.out", "aten::mm.out", "aten::mul.Scalar_out", "aten::mul.out",
		"aten::ne.Scalar_out", "aten::ne.Tensor_out", "aten::permute_copy.out",
		"aten::pixel_shuffle.out", "aten::pixel_unshuffle.out", "aten::pow.Scalar_out",
		"aten::pow.Tensor_Scalar_out", "aten::pow.Tensor_Tensor_out", "aten::prod.out",
		"aten::reflection_pad1d.out", "aten::reflection_pad2d.out", "aten::reflection_pad3d.out",
		"aten::remainder.Scalar_out", "aten::remainder.Tensor_out", "aten::repeat.out",
		"aten::repeat_interleave.Tensor_out", "aten::replication_pad1d.out",
		"aten::replication_pad2d.out", "aten::replication_pad3d.out",
		"aten::squeeze_copy.dim_out", "aten::squeeze_copy.dims_out", "aten::stack.out",
		"aten::tril.out", "aten::unbind_copy.int_out", "aten::unsqueeze_copy.out",
		"aten::view_copy.out", "dim_order_ops::_empty_dim_order.out",
		"executorch_prim::sym_ite.Scalar":
		return 4
	case "aten::_log_softmax.out", "aten::_softmax.out", "aten::_to_copy.out",
		"aten::add.Scalar_out", "aten::add.out", "aten::amax.out", "aten::amin.out",
		"aten::any.dims_out", "aten::any.out", "aten::arange.start_out", "aten::argmax.out",
		"aten::argmin.out", "aten::clamp.Tensor_out", "aten::clamp.out",
		"aten::constant_pad_nd.out", "aten::copy.out", "aten::cumsum.out",
		"aten::div.Scalar_mode_out", "aten::div.out_mode", "aten::expand_copy.out",
		"aten::full_like.out", "aten::hardtanh.out", "aten::index_put_",
		"aten::index_select.out", "aten::linear.out", "aten::masked_fill.Scalar_out",
		"aten::masked_scatter.out", "aten::roll.out", "aten::rsub.Scalar_out",
		"aten::select_copy.int_out", "aten::split_copy.Tensor_out",
		"aten::split_with_sizes_copy.out", "aten::sub.Scalar_out", "aten::sub.out",
		"aten::transpose_copy.int_out", "aten::upsample_nearest2d.vec_out",
		"aten::where.self_out", "dim_order_ops::_clone_dim_order.out",
		"dim_order_ops::_to_dim_order_copy.out",
		"quantized_decomposed::choose_qparams_per_token_asymmetric.out":
		return 5
	case "aten::_cdist_forward.out", "aten::_fft_c2r.out", "aten::_fft_r2c.out",
		"aten::as_strided_copy.out", "aten::diagonal_copy.out", "aten::elu.out",
		"aten::gather.out", "aten::index_put.out", "aten::max.dim_max", "aten::mean.out",
		"aten::min.dim_min", "aten::narrow_copy.out", "aten::native_dropout.out",
		"aten::prod.int_out", "aten::scatter.src_out", "aten::scatter.value_out",
		"aten::scatter_add.out", "aten::select_scatter.out", "aten::sum.IntList_out",
		"aten::unfold_copy.out", "aten::upsample_bilinear2d.vec_out", "aten::var.correction_out",
		"aten::var.out", "quantized_decomposed::mixed_mm.out":
		return 6
	case "aten::_upsample_bilinear2d_aa.out", "aten::addmm.out", "aten::embedding.out",
		"aten::grid_sampler_2d.out", "aten::slice_copy.Tensor_out",
		"aten::var_mean.correction_out", "quantized_decomposed::mixed_linear.out":
		return 7
	case "aten::slice_scatter.out", "aten::topk.values",
		"quantized_decomposed::choose_qparams.Tensor_out",
		"quantized_decomposed::embedding_2bit.out", "quantized_decomposed::embedding_4bit.out",
		"quantized_decomposed::embedding_byte.out",
		"quantized_decomposed::quantize_per_tensor.Tensor_out",
		"quantized_decomposed::quantize_per_tensor.out",
		"quantized_decomposed::quantize_per_token.out":
		return 8
	case "aten::avg_pool2d.out", "aten::max_pool2d_with_indices.out",
		"aten::native_layer_norm.out", "quantized_decomposed::dequantize_per_tensor.Tensor_out",
		"quantized_decomposed::dequantize_per_tensor.out",
		"quantized_decomposed::dequantize_per_token.out",
		"quantized_decomposed::embedding_2bit.dtype_out",
		"quantized_decomposed::embedding_4bit.dtype_out",
		"quantized_decomposed::embedding_byte.dtype_out",
		"quantized_decomposed::quantize_per_channel.out":
		return 9
	case "aten::_native_batch_norm_legit.no_stats_out",
		"aten::max_pool2d_with_indices_backward.grad_input",
		"quantized_decomposed::dequantize_per_channel.out":
		return 10
	case "aten::_native_batch_norm_legit_no_training.out", "aten::convolution.out":
		return 11
	case "aten::_native_batch_norm_legit.out", "aten::native_group_norm.out":
		return 12
	case "aten::convolution_backward.out":
		return 15
	case "quantized_decomposed::add.out":
		return 16
	}
	return 0
}
